"""What vector environments that step in their own process have in common.

`SceneVectorEnv` is one for users; an actor of Ray has one over the environments that it hosts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from superdex.lab.gym.envs.env_state import EnvState, Section, SectionKey
from superdex.lab.gym.vector.attributes import call_envs, set_env_attr
from superdex.lab.gym.vector.autoreset import Autoreset
from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.base import BatchedVectorEnv
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.host import make_envs

__all__ = ["InProcessVectorEnv"]


class InProcessVectorEnv(BatchedVectorEnv):
    """A vector environment whose environments are objects of this process, native batches where they can be."""

    def _make_envs(
        self, factories: Sequence[Callable[[], Any]], num_threads: int, mode: AutoresetMode, copy: bool
    ) -> None:
        """Make the environments and what steps them; if that fails, close those that were made."""
        autoreset, self.inner_backends, spaces = make_envs(factories, 0, num_threads, 0, mode, self._check_env)
        self._adopt(autoreset, spaces, copy)
        self._buffers = StepBuffers.allocate(self.observation_space, self.num_envs)

    def _adopt(self, autoreset: Autoreset, spaces: tuple[Box, Box], copy: bool) -> None:
        """Be the vector environment of what `autoreset` steps, whose results go to `_buffers`."""
        self._autoreset = autoreset
        first = self.envs[0]
        self._describe(spaces, len(self.envs), first.metadata, first.render_mode, autoreset.mode, copy)

    def _check_env(self, env: gymnasium.Env, environment: int) -> None:
        """Raise if this cannot be one of the environments."""

    @property
    def envs(self) -> Sequence[gymnasium.Env]:
        """The environments; a native batch's are rows of it."""
        return self._autoreset.backend.envs

    def _reset_envs(
        self, seeds: list[int | None] | None, options: dict[str, Any] | None, mask: NDArray[np.bool_] | None
    ) -> Columns:
        if mask is not None and seeds is not None:
            seeds = [seeds[row] for row in np.flatnonzero(mask)]
        return self._autoreset.reset(seeds, options, self._buffers.observation, mask)

    def _step_envs(self, actions: np.ndarray) -> Columns:
        return self._autoreset.step(actions, self._buffers)

    def _call_envs(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], environments: list[int] | None
    ) -> tuple[Any, ...]:
        return tuple(call_envs(self.envs, name, args, kwargs, environments))

    def _set_env_attr(self, name: str, values: Sequence[Any]) -> None:
        set_env_attr(self.envs, name, values)

    def _state_keys(self) -> list[SectionKey]:
        return self._autoreset.backend.state_keys()

    def _capture_envs(self) -> tuple[list[Section], NDArray[np.bool_]]:
        return self._autoreset.capture()

    def _restore_envs(self, state: EnvState) -> None:
        self._autoreset.restore(state)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environments; raises what an environment's close() raised, once all were closed."""
        self.closed = True
        if os.getpid() == self._owner:  # else they are those of the process that this one was forked from
            self._autoreset.close()
