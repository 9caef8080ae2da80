"""Running statistics that bring observations and rewards to a common scale.

Both follow the data of training and are part of what a policy is: save them
beside it. Statistics are kept in float64 and updated batch by batch (Chan's
parallel algorithm), so that they do not lose precision over billions of steps.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from superdex.lab.gym.rollouts.rollout import Rollout

__all__ = ["ObservationNormalizer", "RewardScaler", "RunningMoments", "normalized"]


def normalized(
    rows: np.ndarray, mean: NDArray[np.float64], scale: NDArray[np.float64], clip: float
) -> NDArray[np.float32]:
    """`(rows - mean) * scale`, clipped to +-`clip`, in float32; any leading axes."""
    out = np.subtract(rows, mean, dtype=np.float64)  # in float32, a large mean would swallow the difference
    out *= scale
    return np.clip(out, -clip, clip, out=out).astype(np.float32)


class RunningMoments:
    """Mean and variance of all rows seen so far; `shape` is that of one row."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean: NDArray[np.float64] = np.zeros(shape)
        self.variance: NDArray[np.float64] = np.ones(shape)
        """Of the rows; 1 before there are any."""
        self.count = 0
        """How many rows were seen."""

    def update(self, rows: np.ndarray) -> None:
        """Take in rows (..., *shape).

        Raises:
            ValueError: if their shape is another, or one holds NaN or infinity; nothing changes then.
        """
        shape = self.mean.shape
        if rows.shape[rows.ndim - len(shape) :] != shape:
            raise ValueError(f"Rows must be of shape (..., {', '.join(map(str, shape))}), got {rows.shape}.")
        rows = rows.reshape(-1, *shape)
        if not len(rows):
            return
        mean = rows.mean(axis=0, dtype=np.float64)
        variance = np.square(np.subtract(rows, mean, dtype=np.float64)).mean(axis=0)
        if not np.isfinite(variance).all():
            raise ValueError("Rows hold NaN or infinity, after which no mean would be finite again.")
        total, delta = self.count + len(rows), mean - self.mean
        weight = len(rows) / total
        between = np.square(delta) * (weight * (1 - weight))
        self.variance = self.variance * (1 - weight) + variance * weight + between
        self.mean = self.mean + delta * weight
        self.count = total

    def state(self) -> dict[str, np.ndarray]:
        """Everything that was learned, as arrays; `np.savez` takes them."""
        return {"mean": self.mean.copy(), "variance": self.variance.copy(), "count": np.array(self.count, np.int64)}

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a `state()`.

        Raises:
            ValueError: if it is of rows of another shape; nothing changes then.
        """
        mean, variance, count = np.array(state["mean"]), np.array(state["variance"]), int(state["count"])
        if {mean.shape, variance.shape} != {self.mean.shape}:
            raise ValueError(f"The state is of rows of shape {mean.shape}, these are {self.mean.shape}.")
        self.mean, self.variance, self.count = mean, variance, count


class ObservationNormalizer(RunningMoments):
    """Brings observations to mean 0 and variance 1, judged by all that were seen.

    It is held still while a rollout is collected, so that all environments in all
    processes act on the same scale, and takes in the rollout's observations after it.
    """

    def __init__(self, shape: tuple[int, ...], *, clip: float = 10.0, epsilon: float = 1e-8) -> None:
        """`clip`: largest size of a normalised value; `epsilon` is added to the variance."""
        super().__init__(shape)
        self.clip = clip
        self.epsilon = epsilon

    @property
    def scale(self) -> NDArray[np.float64]:
        """(*shape): what a deviation from the mean is multiplied by."""
        return 1 / np.sqrt(self.variance + self.epsilon)

    def normalize(self, rows: np.ndarray) -> NDArray[np.float32]:
        """Observations (..., *shape), normalised."""
        return normalized(rows, self.mean, self.scale, self.clip)


class RewardScaler:
    """Divides rewards by the running standard deviation of the discounted return, and clips them to +-`clip`.

    Nothing is subtracted: a reward keeps its sign. But a rare reward of more than `clip` deviations of
    the return loses its size, and a task whose point is such rewards is then another one.
    """

    def __init__(self, num_envs: int, gamma: float, *, clip: float = 10.0, epsilon: float = 1e-8) -> None:
        """`gamma`: the learner's discount; `clip`: largest size of a scaled reward."""
        self.gamma = gamma
        self.clip = clip
        self.epsilon = epsilon
        self.moments = RunningMoments(())
        self.discounted: NDArray[np.float64] = np.zeros(num_envs)
        """(num_envs,): the discounted sum of each running episode's rewards."""

    def scale(self, rollout: Rollout) -> NDArray[np.float32]:
        """(T, N): the rollout's rewards, scaled by what was seen up to its end."""
        sums = np.empty(rollout.rewards.shape)
        self.forget_running(rollout.restarted)
        ended = rollout.terminated | rollout.truncated
        for t, rewards in enumerate(rollout.rewards):
            self.discounted = self.discounted * self.gamma + rewards
            sums[t] = self.discounted
            self.discounted[ended[t]] = 0
        self.moments.update(sums)
        factor = 1 / np.sqrt(self.moments.variance + self.epsilon)
        return np.clip(rollout.rewards * factor, -self.clip, self.clip).astype(np.float32)

    def forget_running(self, environments: NDArray[np.bool_] | None = None) -> None:
        """Begin the episodes of all environments anew, or of those in a mask."""
        self.discounted[slice(None) if environments is None else environments] = 0

    def state(self) -> dict[str, np.ndarray]:
        """Everything that decides its future, as arrays."""
        return {**self.moments.state(), "discounted": self.discounted.copy()}

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a `state()`; it must be of as many environments."""
        if state["discounted"].shape != self.discounted.shape:
            raise ValueError(
                f"The state is of {len(state['discounted'])} environments, here are {len(self.discounted)}."
            )
        self.moments.load_state(state)
        self.discounted = np.array(state["discounted"])
