"""The environments of one worker, as a vector environment of its own process.

`SliceVectorEnv` is to an actor what `SceneVectorEnv` is to a user, but for any
environments, which know their place among all: errors name global indices. Its
infos can be had as columns (`reset_columns`, `step_columns`), for the caller
merges those of all workers at once; and it is what `rollouts.collect` steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.envs.env_state import SectionKey
from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.in_process import InProcessVectorEnv

__all__ = ["SliceVectorEnv"]


class SliceVectorEnv(InProcessVectorEnv):
    """Some of all environments, stepped in this process: natively where they can be.

    Args:
        factories: one per environment.
        first_environment: the global index of the first.
        num_threads: native threads.
        autoreset_mode: when an environment whose episode ended is reset.
    """

    def __init__(
        self,
        factories: Sequence[Callable[[], Any]],
        first_environment: int,
        num_threads: int,
        autoreset_mode: AutoresetMode,
    ) -> None:
        self.first_environment = first_environment
        self._make_envs(factories, num_threads, autoreset_mode, copy=False)

    @property
    def results(self) -> StepBuffers:
        """What the last reset or step wrote; the next one overwrites it."""
        return self._buffers

    def reset_columns(self, seeds: list[int | None] | None, options: dict[str, Any] | None, pending: bool) -> Columns:
        """Reset all environments; with `pending`, they count as not yet reset since their episodes ended."""
        columns = self._reset_envs(seeds, options, None)
        self._autoreset.pending[:] = pending
        self._ready = True
        return columns

    def step_columns(self, actions: np.ndarray) -> Columns:
        """Step all environments; the infos."""
        return self._step_envs(actions)

    def assign(self, name: str, values: Sequence[Any]) -> None:
        """Set an attribute, one value for each environment, which the caller has checked for all of them."""
        self._set_env_attr(name, values)

    def state_keys(self) -> list[SectionKey]:
        """What each environment must share with another to continue from its state."""
        return self._state_keys()
