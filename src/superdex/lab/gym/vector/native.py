"""The native backend: environments of one task, configuration and scene, stepped in one native call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from superdex.lab.gym.envs.capturing import capture, restore, section_key
from superdex.lab.gym.envs.env_state import Section, SectionKey
from superdex.lab.gym.envs.mochi_env import MochiEnv
from superdex.lab.gym.envs.reasons import Reasons
from superdex.lab.gym.envs.task_batch import TaskBatch
from superdex.lab.gym.vector.attributes import run_all
from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.columns import ArrayColumn, CodedColumn, Column, Columns, ObjectColumn
from superdex.physics import Rows

__all__ = ["NativeBackend"]


class NativeBackend:
    """Steps environments as the rows of one `TaskBatch`, which each of them joins.

    Args:
        envs: environments of one class and equal configuration on one scene.
        num_threads: native threads; 0 for the configuration's `num_worker_threads`.
        automatic: native threads if that is 0, too; 0 for one per logical CPU.
    """

    def __init__(self, envs: Sequence[MochiEnv], num_threads: int, automatic: int = 0) -> None:
        self.envs = envs
        self.num_envs = len(envs)
        self.distinct = (0,)
        num_threads = num_threads or envs[0].cfg.num_worker_threads or automatic
        self.batch = TaskBatch(envs, envs[0].scene.make_batch(len(envs), num_threads))
        for index, env in enumerate(envs):
            env.join(self.batch, index)

    def reset(
        self,
        rows: Rows,
        seeds: Sequence[int | None] | None,
        options: dict[str, Any] | None,
        observation: np.ndarray,
    ) -> Columns:
        """See `Backend.reset`."""
        try:
            infos = self.batch.reset(rows, seeds, options, observation)
        except Exception as error:
            self._name(error)
            raise
        return {name: [_column(value, rows, None)] for name, value in infos.items()}

    def step(self, rows: Rows, actions: np.ndarray, out: StepBuffers) -> Columns:
        """See `Backend.step`."""
        try:
            infos = self.batch.step(rows, actions, out.observation, out.reward, out.terminated, out.truncated)
        except Exception as error:
            self._name(error)
            raise
        if rows is None:
            return {name: [_column(value, None, None)] for name, value in infos.items()}
        present = np.zeros(self.num_envs, np.bool_)
        present[rows] = True
        absent = (~present).nonzero()[0]
        for value in infos.values():
            (value.codes if isinstance(value, Reasons) else value)[absent] = 0
        return {name: [_column(value, None, present)] for name, value in infos.items()}

    def _name(self, error: Exception) -> None:
        error.add_note(f"Raised in a native batch of {self.num_envs} x {type(self.envs[0]).__name__}.")

    def final_observations(self, rows: NDArray[np.int64], observation: np.ndarray) -> np.ndarray:
        """See `Backend.final_observations`."""
        return observation[rows]

    def state_keys(self) -> list[SectionKey]:
        """See `Backend.state_keys`."""
        return [section_key(self.envs[0])] * self.num_envs

    def capture(self) -> list[Section]:
        """See `Backend.capture`."""
        return [capture(self.batch)]

    def restore(self, sections: Sequence[Section], observation: np.ndarray) -> None:
        """See `Backend.restore`."""
        (section,) = sections
        restore(self.batch, section)

    def close(self) -> None:
        """Close every environment; the first error is raised once all were closed."""
        run_all(env.close for env in self.envs)


def _column(value: NDArray[Any] | Reasons, rows: Rows, present: NDArray[np.bool_] | None) -> Column:
    """A column of what `MochiEnv.step` gives for each environment alone."""
    if isinstance(value, Reasons):
        return CodedColumn(rows, value.codes, value.table, present)
    if value.ndim > 1:
        return ArrayColumn(rows, value, np.ndarray, present)
    if value.dtype.kind == "b":
        return ArrayColumn(rows, value, bool, present)
    if value.dtype.kind in "fiuc":
        return ArrayColumn(rows, value, value.dtype.type, present)
    rows = rows if present is None else np.flatnonzero(present)
    return ObjectColumn(rows, list(value if present is None else value[present]))
