"""What vector environments that step in their own process have in common.

`SceneVectorEnv` is one for users; a Ray actor has one for its slice of all
environments, which therefore know their place among all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from superdex.lab.gym.envs.env_state import EnvState, Section, SectionKey
from superdex.lab.gym.vector.attributes import call_envs, render_envs, run_all, set_env_attr
from superdex.lab.gym.vector.autoreset import Autoreset
from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.base import BatchedVectorEnv
from superdex.lab.gym.vector.checks import check_spaces
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.errors import name_environment
from superdex.lab.gym.vector.partition import make_backend

__all__ = ["InProcessVectorEnv"]


class InProcessVectorEnv(BatchedVectorEnv):
    """A vector environment whose environments are objects of this process, native batches where they can be."""

    first_environment = 0
    """The index of environment 0 among all environments, for errors."""

    def _make_envs(
        self, factories: Iterable[Callable[[], Any]], num_threads: int, mode: AutoresetMode, copy: bool
    ) -> None:
        """Make the environments and what steps them; if that fails, close those that were made."""
        made: list[gymnasium.Env] = []
        try:
            for factory in factories:
                made.append(self._make_env(factory, self.first_environment + len(made)))
            self._backend, self.inner_backends = make_backend(made, num_threads)
            spaces = check_spaces(made, self._backend.distinct, self.first_environment)
        except BaseException:
            with suppress(Exception):  # the first error counts
                run_all(env.close for env in made)
            raise
        self._describe(spaces, len(made), made[0].metadata, made[0].render_mode, mode, copy)
        self._autoreset = Autoreset(self._backend, mode, self.first_environment)
        self._buffers = StepBuffers.allocate(self.observation_space, len(made))

    def _make_env(self, factory: Callable[[], Any], environment: int) -> gymnasium.Env:
        try:
            env = factory()
            if not isinstance(env, gymnasium.Env):
                raise TypeError(f"A factory must return a gymnasium.Env, got {env!r}.")
        except Exception as error:
            name_environment(error, environment, by="Raised by the factory of")
            raise
        return env

    @property
    def envs(self) -> Sequence[gymnasium.Env]:
        """The environments; a native batch's are rows of it."""
        return self._backend.envs

    def _reset_envs(
        self, seeds: list[int | None] | None, options: dict[str, Any] | None, mask: NDArray[np.bool_] | None
    ) -> Columns:
        if mask is not None and seeds is not None:
            seeds = [seeds[row] for row in np.flatnonzero(mask)]
        return self._autoreset.reset(seeds, options, self._buffers.observation, mask)

    def _step_envs(self, actions: np.ndarray) -> Columns:
        return self._autoreset.step(actions, self._buffers)

    def _call_envs(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(call_envs(self.envs, name, args, kwargs, self.first_environment))

    def _render_envs(self, environments: list[int]) -> tuple[Any, ...]:
        first = self.first_environment
        return tuple(render_envs(self.envs, [first + index for index in environments], first))

    def _set_env_attr(self, name: str, values: Sequence[Any]) -> None:
        set_env_attr(self.envs, name, values, self.first_environment)

    def _state_keys(self) -> list[SectionKey]:
        return self._backend.state_keys()

    def _capture_envs(self) -> tuple[list[Section], NDArray[np.bool_]]:
        return self._autoreset.capture()

    def _restore_envs(self, state: EnvState) -> None:
        self._autoreset.restore(state)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environments; raises what an environment's close() raised, once all were closed."""
        self.closed = True
        self._autoreset.close()
