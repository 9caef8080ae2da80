"""The task under test: makes its environments, and knows how they run at first sight.

Every check gets a `Subject`. Environments are made anew for each, since a check
must not see what another one left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.envs import MochiEnv, TaskCfg
from superdex.lab.gym.testing.faults import Fault
from superdex.lab.gym.vector.scene_vector_env import SceneVectorEnv

__all__ = ["Subject", "actions_of", "bounds_of", "rollout", "rollout_alone"]

_LARGEST = 1e6


class Subject:
    """A task class in one configuration.

    Args:
        env_class: the task.
        cfg: its configuration.
        try_values: other values to try for configuration fields, beyond those that can be guessed.
    """

    def __init__(
        self, env_class: type[MochiEnv], cfg: TaskCfg, try_values: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        self.env_class = env_class
        self.cfg = cfg
        self.try_values = dict(try_values or {})
        self._made: list[MochiEnv] = []

    def factory(self, **changes: Any) -> Callable[[], MochiEnv]:
        """Makes an environment, with `changes` to the configuration unless it refuses them."""
        return partial(self.env_class, self.varied(**changes) or self.cfg)

    def make(self) -> MochiEnv:
        """An environment, until the next `close`."""
        self._made.append(self.factory()())
        return self._made[-1]

    def close(self) -> None:
        """Close what `make` made."""
        while self._made:
            with suppress(Exception):  # an error in close() shows in `fault`
                self._made.pop().close()

    def vector(
        self,
        num_envs: int,
        *,
        num_threads: int = 1,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        **changes: Any,
    ) -> SceneVectorEnv:
        """Environments in this process, a native batch if the task can be one."""
        factories = [self.factory(**changes)] * num_envs
        return SceneVectorEnv(factories, num_threads=num_threads, autoreset_mode=autoreset_mode)

    def varied(self, **changes: Any) -> TaskCfg | None:
        """The configuration with changes, or None if it refuses them."""
        try:
            return replace(self.cfg, **changes)
        except (TypeError, ValueError):
            return None

    @cached_property
    def fault(self) -> Fault | None:
        """What the task raises when it is made, reset and stepped, alone and in a batch; None if nothing."""
        try:
            env = self.make()
            for _ in rollout_alone(env, 1, 3):
                pass
            env.close()
            with self.vector(3) as envs:
                for _ in rollout(envs, (1, 2, 3), 4, restart=2):
                    pass
        except Exception as error:
            return Fault.of(error, self.env_class)
        return None


def bounds_of(space: Box) -> tuple[np.ndarray, np.ndarray]:
    """Finite bounds of a flat action space (size,): its own, or about 1 where it has none."""
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    low_given, high_given = low > -_LARGEST, high < _LARGEST
    return (
        np.where(low_given, low, np.where(high_given, high - 2, -1)),
        np.where(high_given, high, np.where(low_given, low + 2, 1)),
    )


def actions_of(space: Box, keys: Sequence[int], step: int) -> np.ndarray:
    """(len(keys), size) actions of a step; each depends on its key and the step alone."""
    low, high = bounds_of(space)
    rows = [np.random.default_rng((key, step)).uniform(low, high) for key in keys]
    return np.array(rows).astype(space.dtype)


def rollout(envs: Any, keys: Sequence[int], num_steps: int, *, restart: int | None = None) -> Iterator[tuple[Any, ...]]:
    """What the reset and each step of a vector environment return.

    Args:
        envs: of `len(keys)` environments.
        keys: the seed of each environment, which its actions follow from, too.
        num_steps: how many steps.
        restart: the step before which environment 1 is reset by itself.
    """
    yield envs.reset(seed=list(keys))
    mask = np.arange(len(keys)) == 1
    for step in range(num_steps):
        if step == restart:
            yield envs.reset(options={"reset_mask": mask.copy()})
        yield tuple(envs.step(actions_of(envs.single_action_space, keys, step)))


def rollout_alone(env: Any, key: int, num_steps: int) -> Iterator[tuple[Any, ...]]:
    """What `reset` and `step` of one environment return; it is reset when an episode ends."""
    yield env.reset(seed=key)
    for step in range(num_steps):
        result = env.step(actions_of(env.action_space, [key], step)[0])
        yield result
        if result[2] or result[3]:
            yield env.reset()
