"""Autoreset: when an environment whose episode has ended is reset.

The only place where this is decided, for the environments of one process,
however they are stepped. The three modes are Gymnasium's:

- NEXT_STEP: the step that ends an episode returns its last observation. The next
  one ignores the action and resets: reward 0, flags False, the reset's info.
- SAME_STEP: the step that ends an episode returns the first observation of the
  next one and the reset's info; the last ones are in `final_obs` and `final_info`.
- DISABLED: the caller resets. A step before that is refused, for all processes
  at once, by `checks.check_running`.

`SyncVectorEnv` resets between the steps of two environments, we reset after
all have stepped. Environments that share nothing cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from superdex.lab.gym.envs.env_state import EnvState, Section
from superdex.lab.gym.vector.backend import Backend, StepBuffers
from superdex.lab.gym.vector.columns import ArrayColumn, Columns, NestedColumn, ObjectColumn
from superdex.lab.gym.vector.errors import environment_named
from superdex.lab.gym.vector.infos import FINAL_OBS, extend, select
from superdex.physics import Rows

__all__ = ["Autoreset"]


class Autoreset:
    """Steps a backend's environments and resets them when their episodes end."""

    def __init__(self, backend: Backend, mode: AutoresetMode, first_environment: int = 0) -> None:
        """`first_environment`: the global index of row 0, for errors."""
        self.backend = backend
        self.mode = mode
        self.pending: NDArray[np.bool_] = np.zeros(backend.num_envs, dtype=np.bool_)
        """(num_envs,): whose episode ended in the last step and who was not reset since."""
        self._first_environment = first_environment

    def reset(
        self,
        seeds: Sequence[int | None] | None,
        options: dict[str, Any] | None,
        observation: np.ndarray,
        mask: NDArray[np.bool_] | None = None,
    ) -> Columns:
        """Reset all environments, or those where `mask` is True; `seeds` has one entry for each of them."""
        with environment_named(self._first_environment):
            columns = self.backend.reset(_rows(mask), seeds, options, observation)
        self.pending[slice(None) if mask is None else mask] = False
        return columns

    def step(self, actions: np.ndarray, out: StepBuffers) -> Columns:
        """Step every environment, resetting as the mode says; results go to `out`."""
        with environment_named(self._first_environment):
            if self.mode is AutoresetMode.SAME_STEP:
                return self._step_same(actions, out)
            if self.mode is AutoresetMode.NEXT_STEP:
                columns = self._step_next(actions, out)
            else:
                columns = self.backend.step(None, actions, out)
        np.logical_or(out.terminated, out.truncated, out=self.pending)
        return columns

    def _step_next(self, actions: np.ndarray, out: StepBuffers) -> Columns:
        ended = self.pending.nonzero()[0]
        if not ended.size:
            return self.backend.step(None, actions, out)
        if ended.size == len(self.pending):
            columns: Columns = self.backend.reset(None, None, None, out.observation)
        else:
            columns = self.backend.step((~self.pending).nonzero()[0], actions, out)
            extend(columns, self.backend.reset(ended, None, None, out.observation))
        out.reward[ended] = 0.0
        out.terminated[ended] = False
        out.truncated[ended] = False
        return columns

    def _step_same(self, actions: np.ndarray, out: StepBuffers) -> Columns:
        stepped = self.backend.step(None, actions, out)
        ended = out.terminated | out.truncated
        if not ended.any():
            return stepped
        rows = np.flatnonzero(ended)
        finals = self.backend.final_observations(rows, out.observation)
        columns = select(stepped, ~ended)
        final = ArrayColumn(rows, finals) if isinstance(finals, np.ndarray) else ObjectColumn(rows, finals)
        extend(columns, {FINAL_OBS: [final], "final_info": [NestedColumn(rows, select(stepped, ended))]})
        return extend(columns, self.backend.reset(_rows(ended), None, None, out.observation))

    def capture(self) -> tuple[list[Section], NDArray[np.bool_]]:
        """The states of all environments, and which of them are pending."""
        return self.backend.capture(), self.pending.copy()

    def restore(self, state: EnvState) -> None:
        """Continue from a state that fits the environments."""
        self.backend.restore(state.sections, state.observation)
        self.pending[:] = state.pending

    def close(self) -> None:
        """Close the environments."""
        with environment_named(self._first_environment):
            self.backend.close()


def _rows(mask: NDArray[np.bool_] | None) -> Rows:
    """The rows where `mask` is True, as backends take them."""
    return None if mask is None or mask.all() else np.flatnonzero(mask)
