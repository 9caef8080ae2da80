"""Environments of any kind, stepped one after another in this process.

What Gymnasium's `SyncVectorEnv` does per environment, as a `Backend`: the same
actions in, the same observations, rewards, flags and infos out, with two
differences that keep environments apart from each other and from the past:

- every value is copied when the environment returns it, so an environment may
  reuse one observation buffer and one info dict for ever;
- each environment gets its own copy of `options` and of its action, so it may
  keep or change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from superdex.lab.gym.envs.capturing import capture, section_key
from superdex.lab.gym.envs.env_state import Section, SectionKey
from superdex.lab.gym.envs.mochi_env import MochiEnv
from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.collector import Collector
from superdex.lab.gym.vector.collector import capture as copy_of
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.errors import blame
from superdex.physics import Rows

__all__ = ["SequentialBackend"]


class SequentialBackend:
    """A `Backend` over any environments, in order.

    An exception in an environment passes through with its type; `errors.blame`
    records which environment raised it.
    """

    def __init__(self, envs: Sequence[gymnasium.Env], indices: Sequence[int] | None = None) -> None:
        """`indices`: what errors call each environment, by default its row."""
        self.envs = list(envs)
        self.num_envs = len(self.envs)
        self.distinct = range(self.num_envs)
        self._indices = range(self.num_envs) if indices is None else list(indices)
        self._final_observations: dict[int, Any] = {}

    def reset(
        self,
        rows: Rows,
        seeds: Sequence[int | None] | None,
        options: dict[str, Any] | None,
        observation: np.ndarray,
    ) -> Columns:
        """Reset `rows` one after another; see `Backend.reset`."""
        collector = Collector(self.num_envs)
        for position, row in enumerate(self._iterate(rows)):
            seed = None if seeds is None else seeds[position]
            try:
                first, info = self.envs[row].reset(seed=seed, options=deepcopy(options))
                _write(observation[row, ...], first)
                collector.add(row, info)
            except Exception as error:
                blame(error, self._indices[row])
                raise
        return collector.columns()

    def step(self, rows: Rows, actions: np.ndarray, out: StepBuffers) -> Columns:
        """Step `rows` one after another; see `Backend.step`."""
        collector = Collector(self.num_envs)
        actions = actions.copy()  # an environment may keep its action; the caller's buffer is reused
        observations, rewards, terminated, truncated = out.observation, out.reward, out.terminated, out.truncated
        for row in self._iterate(rows):
            try:
                observation, rewards[row], terminated[row], truncated[row], info = self.envs[row].step(actions[row])
                _write(observations[row, ...], observation)
                if terminated[row] or truncated[row]:
                    self._final_observations[row] = copy_of(observation)
                collector.add(row, info)
            except Exception as error:
                blame(error, self._indices[row])
                raise
        return collector.columns()

    def final_observations(self, rows: NDArray[np.int64], observation: np.ndarray) -> list[Any]:
        """What the environments themselves returned, which may differ in dtype from `observation`."""
        return [self._final_observations.pop(row) for row in rows.tolist()]

    def state_keys(self) -> list[SectionKey]:
        """See `Backend.state_keys`."""
        return [section_key(env) for env in self._capturable()]

    def capture(self) -> list[Section]:
        """See `Backend.capture`."""
        return [replace(capture(env.batch), environments=np.array([row])) for row, env in enumerate(self._capturable())]

    def restore(self, sections: Sequence[Section], observation: np.ndarray) -> None:
        """See `Backend.restore`."""
        envs = self._capturable()
        for section in sections:
            for position, row in enumerate(section.environments.tolist()):
                envs[row].continue_from(section.take(np.array([position]), np.array([0])), observation[row])

    def _capturable(self) -> list[MochiEnv]:
        envs = []
        for row, env in enumerate(self.envs):
            if not isinstance(env, MochiEnv):
                raise TypeError(
                    f"The state of environment {self._indices[row]} ({env}) cannot be captured: only that of MochiEnv"
                    " tasks can, without wrappers of their own."
                )
            envs.append(env)
        return envs

    def close(self) -> None:
        """Close every environment; the first error is raised once all were closed."""
        errors: list[Exception] = []
        for row, env in enumerate(self.envs):
            try:
                env.close()
            except Exception as error:
                blame(error, self._indices[row])
                errors.append(error)
        if errors:
            raise errors[0]

    def _iterate(self, rows: Rows) -> Iterable[int]:
        return range(self.num_envs) if rows is None else rows.tolist()


def _write(out: np.ndarray, observation: Any) -> None:
    """Copy one observation to its place, as strict about shape and cast as `np.stack` into `out`."""
    value = np.asanyarray(observation)
    if value.shape != out.shape:
        raise ValueError(
            f"An observation has the shape {value.shape}, but the observation space says {out.shape}. "
            "Return what `observation_space` describes, or correct the space."
        )
    np.copyto(out, value, casting="same_kind")
