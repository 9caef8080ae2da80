"""A rollout: T steps of N environments as arrays, and the policy that acts in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Policy", "Rollout"]


class Policy(Protocol):
    """Chooses actions for rows of environments; to act in another process, it must be picklable."""

    def __call__(self, observation: np.ndarray, step: int, environments: slice) -> np.ndarray:
        """The actions (n, *action_shape) for observations (n, *observation_shape).

        `step` counts control steps since training began, `environments` says which rows of all
        environments these are. A policy whose noise is a pure function of both acts alike
        however the environments are split.
        """
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Rollout:
    """T steps of N environments that are reset in the step in which their episode ends.

    Row t of `observations` is what the policy saw before step t. Where an episode ended in step t,
    row t + 1 belongs to the next one; the observation that its last action led to is in
    `final_observations`, in order of (step, environment).
    """

    observations: np.ndarray
    """(T, N, *observation_shape), as the environments gave them."""
    actions: np.ndarray
    """(T, N, *action_shape), as the policy gave them: not clipped to the action space."""
    rewards: NDArray[np.float32]
    """(T, N)"""
    terminated: NDArray[np.bool_]
    """(T, N): the task ended the episode in this step."""
    truncated: NDArray[np.bool_]
    """(T, N): a limit ended the episode in this step."""
    last_observation: np.ndarray
    """(N, *observation_shape): what the policy sees next."""
    final_steps: NDArray[np.int64]
    """(k,): the step in which each episode ended, from 0."""
    final_environments: NDArray[np.int64]
    """(k,): whose episode it was."""
    final_observations: np.ndarray
    """(k, *observation_shape): the last observation of each episode."""
    final_lost: NDArray[np.bool_]
    """(k,): the episode did not end by itself. Its worker died in that step, which gave the reward 0 and the last
    observation that was known; `truncated` is set."""
    restarted: NDArray[np.bool_]
    """(N,): environments that were begun anew before the rollout, because their worker had died; the
    episodes that they were in never end."""

    @property
    def num_steps(self) -> int:
        """T"""
        return len(self.rewards)

    @property
    def num_envs(self) -> int:
        """N"""
        return self.rewards.shape[1]

    @classmethod
    def join(cls, fragments: Sequence[Rollout]) -> Self:
        """One rollout of the environments of all `fragments`, in their order.

        Raises:
            ValueError: if there is none, or they differ in steps, shapes or dtypes.
        """
        if not fragments:
            raise ValueError("Rollout.join() takes at least one fragment, got none.")
        _check_alike(fragments)
        offsets = np.cumsum([0, *(part.num_envs for part in fragments[:-1])])
        steps = np.concatenate([part.final_steps for part in fragments])
        environments = np.concatenate(
            [part.final_environments + offset for part, offset in zip(fragments, offsets, strict=True)]
        )
        order = np.lexsort((environments, steps))
        return cls(
            **{
                name: np.concatenate([getattr(part, name) for part in fragments], axis=1)
                for name in ("observations", "actions", "rewards", "terminated", "truncated")
            },
            last_observation=np.concatenate([part.last_observation for part in fragments]),
            restarted=np.concatenate([part.restarted for part in fragments]),
            final_steps=steps[order],
            final_environments=environments[order],
            final_observations=np.concatenate([part.final_observations for part in fragments])[order],
            final_lost=np.concatenate([part.final_lost for part in fragments])[order],
        )


def _check_alike(fragments: Sequence[Rollout]) -> None:
    def described(part: Rollout) -> tuple[object, ...]:
        observations, actions = part.observations, part.actions
        return part.num_steps, observations.shape[2:], observations.dtype, actions.shape[2:], actions.dtype

    first = described(fragments[0])
    for index, part in enumerate(fragments):
        if described(part) != first:
            raise ValueError(
                "Fragments of one rollout agree in steps, and in shape and dtype of an observation and an action: "
                f"fragment 0 has {first}, fragment {index} has {described(part)}."
            )
