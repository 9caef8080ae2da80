"""The environments of one worker, as a vector environment of its own process.

`SliceVectorEnv` is to an actor what `SceneVectorEnv` is to a user, but for any
environments, which know their place among all: errors name global indices. Its
infos can be had as columns (`reset_columns`, `step_columns`), for the caller
merges those of all workers at once; and it is what `rollouts.collect` steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

__all__ = ["SliceVectorEnv"]


class SliceVectorEnv(BatchedVectorEnv):
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
        made: list[gymnasium.Env] = []
        try:
            for factory in factories:
                made.append(_make(factory, first_environment + len(made)))
            self._backend, self.inner_backends = make_backend(made, num_threads)
            spaces = check_spaces(made, self._backend.distinct, first_environment)
        except BaseException:
            with suppress(Exception):  # the first error counts
                run_all(env.close for env in made)
            raise
        self._describe(spaces, len(made), made[0].metadata, made[0].render_mode, autoreset_mode, copy=False)
        self._autoreset = Autoreset(self._backend, autoreset_mode, first_environment)
        self._buffers = StepBuffers.allocate(self.observation_space, len(made))

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

    def _reset_envs(
        self, seeds: list[int | None] | None, options: dict[str, Any] | None, mask: NDArray[np.bool_] | None
    ) -> Columns:
        return self._autoreset.reset(seeds, options, self._buffers.observation, mask)

    def _step_envs(self, actions: np.ndarray) -> Columns:
        return self._autoreset.step(actions, self._buffers)

    def _call_envs(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(call_envs(self._backend.envs, name, args, kwargs, self.first_environment))

    def _render_envs(self, environments: list[int]) -> tuple[Any, ...]:
        first = self.first_environment
        return tuple(render_envs(self._backend.envs, [first + index for index in environments], first))

    def _set_env_attr(self, name: str, values: Sequence[Any]) -> None:
        set_env_attr(self._backend.envs, name, values, self.first_environment)

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


def _make(factory: Callable[[], Any], environment: int) -> gymnasium.Env:
    try:
        env = factory()
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"A factory must return a gymnasium.Env, got {env!r}.")
    except Exception as error:
        name_environment(error, environment, by="Raised by the factory of")
        raise
    return env
