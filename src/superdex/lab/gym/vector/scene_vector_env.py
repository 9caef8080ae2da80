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
from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.envs import MochiEnv, TaskCfg
from superdex.lab.gym.vector.checks import check_autoreset_mode
from superdex.lab.gym.vector.in_process import InProcessVectorEnv
from superdex.lab.gym.vector.native import NativeBackend
from superdex.lab.gym.vector.startup import check_count, check_factories
from superdex.physics import SceneBatch

__all__ = ["SceneVectorEnv"]


class SceneVectorEnv(InProcessVectorEnv):
    """A native batch of `MochiEnv` environments in this process.

    Args:
        envs: a list of factories, one per environment, or a `MochiEnv` class.
        num_envs: with a class: how many environments of it.
        cfg: with a class: its configuration, as the class takes it.
        num_threads: native threads of a batch; 0 for its configuration's `num_worker_threads`, and one per
            logical CPU if that is 0, too.
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
        self._make_envs(_factories(envs, num_envs, cfg, overrides), num_threads, mode, copy)

    @property
    def physics(self) -> SceneBatch:
        """The simulations, row i being environment i's.

        Raises:
            RuntimeError: unless all environments step as one native batch.
        """
        backend = self._autoreset.backend
        if not isinstance(backend, NativeBackend):
            raise RuntimeError(f"These environments do not step as one native batch, but as {self.inner_backends}.")
        return backend.batch.physics

    def _check_env(self, env: gymnasium.Env, environment: int) -> None:
        if not isinstance(env.unwrapped, MochiEnv):
            raise ValueError(
                f"SceneVectorEnv steps MochiEnv tasks, but environment {environment} is {env}."
                " Use HybridVectorEnv, which takes any environment."
            )


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
