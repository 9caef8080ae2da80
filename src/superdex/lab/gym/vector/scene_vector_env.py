"""Thousands of environments in this process, stepped as one native batch.

    with SceneVectorEnv(CartPoleEnv, num_envs=1000) as env:
        observations, _ = env.reset(seed=0)
        observations, rewards, terminated, truncated, info = env.step(env.action_space.sample())

The fastest choice on one machine: no processes, no copies between them, and
native threads that share out the rows. What is guaranteed is what
`HybridVectorEnv` guarantees, and the results are the same to the bit at any
number of threads.

It is for `MochiEnv` tasks. Those that cannot be part of a native batch (wrapped,
`vectorized = False`, a scene of their own) are stepped one after another;
`inner_backends` tells which, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from superdex.lab.gym.envs import MochiEnv, TaskCfg
from superdex.lab.gym.envs.env_state import EnvState, Section, SectionKey
from superdex.lab.gym.vector.attributes import call_envs, render_envs, run_all, set_env_attr
from superdex.lab.gym.vector.autoreset import Autoreset
from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.base import BatchedVectorEnv, check_autoreset_mode
from superdex.lab.gym.vector.checks import check_spaces
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.errors import name_environment
from superdex.lab.gym.vector.native import NativeBackend
from superdex.lab.gym.vector.partition import make_backend
from superdex.lab.gym.vector.startup import check_count, check_factories
from superdex.physics import SceneBatch

__all__ = ["SceneVectorEnv"]


class SceneVectorEnv(BatchedVectorEnv):
    """A native batch of `MochiEnv` environments in this process.

    Args:
        envs: a list of factories, one per environment, or a `MochiEnv` class.
        num_envs: with a class: how many environments of it.
        cfg: with a class: its configuration, as the class takes it.
        num_threads: native threads; 0 for the configuration's `num_worker_threads`, or one per logical CPU.
        autoreset_mode: when an environment whose episode ended is reset.
        copy: whether results are the caller's to keep; otherwise they are overwritten by the next call.
        **overrides: with a class: configuration fields that take precedence over `cfg`.

    `reset(options={"reset_mask": mask})` resets only the environments where the
    boolean mask (num_envs,) is True, as in `SyncVectorEnv`.

    Raises:
        ValueError: if there is no environment, one is not a `MochiEnv`, or an argument does not fit the others.
        RuntimeError: if the environments' spaces differ.
    """

    _supports_reset_mask = True

    def __init__(
        self,
        envs: Sequence[Callable[[], gymnasium.Env]] | type[MochiEnv],
        num_envs: int | None = None,
        cfg: TaskCfg | Mapping[str, Any] | None = None,
        *,
        num_threads: int = 0,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **overrides: Any,
    ) -> None:
        mode = check_autoreset_mode(autoreset_mode)
        check_count("num_threads", num_threads, least=0)
        made: list[gymnasium.Env] = []
        try:
            for factory in _factories(envs, num_envs, cfg, overrides):
                made.append(_make(factory, len(made)))
            self._backend, self.inner_backends = make_backend(made, num_threads)
            spaces = check_spaces(self._backend.envs, self._backend.distinct)
        except BaseException:
            with suppress(Exception):  # the first error counts
                run_all(env.close for env in made)
            raise
        self._describe(spaces, len(made), made[0].metadata, made[0].render_mode, mode, copy)
        self._autoreset = Autoreset(self._backend, mode)
        self._buffers = StepBuffers.allocate(self.observation_space, len(made))

    @property
    def envs(self) -> Sequence[gymnasium.Env]:
        """The environments; a native batch's are rows of it."""
        return self._backend.envs

    @property
    def physics(self) -> SceneBatch:
        """The simulations, row i being environment i's.

        Raises:
            RuntimeError: unless all environments step as one native batch.
        """
        if not isinstance(self._backend, NativeBackend):
            raise RuntimeError(f"These environments do not step as one native batch, but as {self.inner_backends}.")
        return self._backend.batch.physics

    def _reset_envs(
        self, seeds: list[int | None] | None, options: dict[str, Any] | None, mask: NDArray[np.bool_] | None
    ) -> Columns:
        if mask is not None and seeds is not None:
            seeds = [seeds[row] for row in np.flatnonzero(mask)]
        return self._autoreset.reset(seeds, options, self._buffers.observation, mask)

    def _step_envs(self, actions: np.ndarray) -> Columns:
        return self._autoreset.step(actions, self._buffers)

    def _call_envs(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(call_envs(self.envs, name, args, kwargs))

    def _render_envs(self, environments: list[int]) -> tuple[Any, ...]:
        return tuple(render_envs(self.envs, environments))

    def _set_env_attr(self, name: str, values: Sequence[Any]) -> None:
        set_env_attr(self.envs, name, values)

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


def _make(factory: Callable[[], gymnasium.Env], index: int) -> gymnasium.Env:
    try:
        env = factory()
    except Exception as error:
        name_environment(error, index, by="Raised by the factory of")
        raise
    if not isinstance(env, gymnasium.Env) or not isinstance(env.unwrapped, MochiEnv):
        raise ValueError(
            f"SceneVectorEnv steps MochiEnv tasks, but environment {index} is {env}."
            " Use HybridVectorEnv, which takes any environment."
        )
    return env


def _factories(
    envs: Sequence[Callable[[], gymnasium.Env]] | type[MochiEnv],
    num_envs: int | None,
    cfg: TaskCfg | Mapping[str, Any] | None,
    overrides: dict[str, Any],
) -> Sequence[Callable[[], gymnasium.Env]]:
    if isinstance(envs, type):
        if not issubclass(envs, MochiEnv):
            raise ValueError(f"SceneVectorEnv takes a MochiEnv class or a list of factories, got {envs!r}.")
        if num_envs is None:
            raise ValueError("With a class, num_envs says how many environments to make: at least 1, got None.")
        check_count("num_envs", num_envs)
        checked = envs.Cfg.make(cfg, **overrides)
        return [partial(envs, checked)] * num_envs
    if num_envs is not None or cfg is not None or overrides:
        raise ValueError(
            "num_envs, cfg and configuration fields go with a class; factories make environments by themselves."
        )
    return check_factories(envs, 1)
