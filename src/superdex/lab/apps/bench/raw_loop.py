"""The yardstick: a bare `mujoco.batch.Batch` that does the same physics and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.utils.vector import BatchedStepResult, SceneVectorEnv

__all__ = ["RawLoop"]

# The parts of a state that an action may set and that a physics step leaves alone.
_HELD_FIELDS = ("ctrl", "qfrc_applied", "xfrc_applied", "eq_active", "mocap_pos", "mocap_quat")


class RawLoop:
    """Repeats the physics of `env`'s steps, from the same states, under the same controls.

        raw.record(actions)                # steps `env`
        seconds = raw.replay()             # the physics of these steps

    The model, the number of substeps and the fields that are copied out of every
    step (the task's `derived_fields`) are those of `env`. Where `env` resets an
    environment instead of stepping it, the raw loop steps on: it has no resets.

    Args:
        env: environments that step as one native batch.
        num_threads: native threads of the raw loop.
    """

    def __init__(self, env: SceneVectorEnv, num_threads: int) -> None:
        self._env = env
        task: Any = env.envs[0].unwrapped
        assert isinstance(task, MochiEnv)
        self.num_substeps = task.cfg.num_substeps
        self._physics = env.physics
        self._batch = Batch(task.scene.model, env.num_envs, num_threads)
        self._held = _columns(self._batch, _HELD_FIELDS)
        for name in task.derived_fields:
            self._batch.bind(name)
        self._states: list[NDArray[np.float64]] = []
        self.seconds_of_env = 0.0
        """How long the environments' own steps took in the last `record`, without the notes taken [s]."""
        self.num_replays = 0
        """How often the recorded steps were replayed."""
        self._stepped = np.zeros(env.num_envs, np.bool_)
        self._ended = np.zeros(env.num_envs, np.bool_)

    @property
    def num_recorded(self) -> int:
        """How many steps `replay` does."""
        return len(self._states)

    def record(self, actions: Sequence[NDArray[Any]]) -> BatchedStepResult:
        """Step the environments with each of `actions`, and note where the physics of each step started from.

        Returns:
            What the last step returned. The others' results are dropped before the next step, within its time:
            memory that is kept has to be found anew in every step.
        """
        self._states = []
        self.seconds_of_env = 0.0
        self.num_replays = 0
        result = None
        for action in actions:
            state = self._physics.state.copy()
            self._stepped = ~self._ended
            start = perf_counter()
            result = None
            result = self._env.step(action)
            self._ended = result.terminated | result.truncated  # microseconds
            self.seconds_of_env += perf_counter() - start
            state[:, self._held] = self._physics.state[:, self._held]
            self._states.append(state)
        assert result is not None, "nothing to record"
        return result

    def replay(self) -> float:
        """Do the physics of the recorded steps; how long that took, without the copying in of states [s]."""
        seconds = 0.0
        self.num_replays += 1
        for state in self._states:
            self._batch.state[...] = state
            start = perf_counter()
            self._batch.step(None, self.num_substeps)
            seconds += perf_counter() - start
        return seconds

    def has_followed(self) -> bool:
        """Whether the last replayed step led, to the bit, where it led the environments that were not reset in it."""
        return np.array_equal(self._batch.state[self._stepped], self._physics.state[self._stepped])


def _columns(batch: Batch, fields: Sequence[str]) -> NDArray[np.bool_]:
    """(nstate,) where the fields lie in a state."""
    batch.state[...] = 0
    for name in fields:
        batch.bind(name)[...] = 1
    return batch.state[0] == 1
