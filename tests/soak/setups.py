"""What is soaked: tasks, splits, modes and options, drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from superdex.lab.gym.envs.benchmarks import AntEnv, CartPoleEnv, HalfCheetahEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv
from tests.lab.gym.vector.mocks import CountingEnv, MockEnv, MockSpec

__all__ = ["FOREIGN", "TASKS", "Setup", "draw_setup"]

Factory = Callable[[], gymnasium.Env]

_MOCK = MockSpec(infos=("int", "float32", "str_or_none", "array", "nested", "list"), end_chance=0.02)

TASKS: dict[str, list[Factory]] = {
    "CartPole": [partial(CartPoleEnv, steps_per_episode=30)],
    "CartPole, randomized": [partial(CartPoleEnv, steps_per_episode=25, randomize_physics=0.2, actuate_on_pole=True)],
    "HalfCheetah": [partial(HalfCheetahEnv, steps_per_episode=20)],
    "HalfCheetah, randomized": [partial(HalfCheetahEnv, steps_per_episode=12, randomize_physics=0.1)],
    "Ant": [partial(AntEnv, steps_per_episode=20)],
    "Ant, without contact": [partial(AntEnv, steps_per_episode=15, include_contact_in_observation=False)],
    "two configurations": [
        partial(CartPoleEnv, steps_per_episode=30),
        partial(CartPoleEnv, steps_per_episode=20, use_damping=False),
    ],
    "native and sequential": [
        *[partial(CartPoleEnv, steps_per_episode=30)] * 24,
        partial(CartPoleEnv, steps_per_episode=10, use_shared_scenes=False),
    ],
    "mock": [partial(MockEnv, _MOCK)],
    "counting": [partial(CountingEnv, length) for length in (3, 7, 11)],
}
"""Kinds of environments that take turns, with episodes short enough for many resets."""

FOREIGN = frozenset({"mock", "counting"})
"""Tasks that are no `MochiEnv`s: they have no native batch and no checkpoints."""


@dataclass(frozen=True)
class Setup:
    """A vector environment to make."""

    task: str
    num_envs: int
    kind: Literal["hybrid", "scene"] = "hybrid"
    num_workers: int = 2
    mode: AutoresetMode = AutoresetMode.NEXT_STEP
    copy: bool = True
    threads: int = 1
    on_worker_failure: Literal["raise", "restart"] = "restart"
    worker_timeout: float | None = None

    @property
    def foreign(self) -> bool:
        """Whether Gymnasium's own vector environment is the twin, and checkpoints are refused."""
        return self.task in FOREIGN

    @property
    def factories(self) -> list[Factory]:
        """One per environment."""
        kinds = TASKS[self.task]
        return [kinds[index % len(kinds)] for index in range(self.num_envs)]

    def make(self) -> HybridVectorEnv | SceneVectorEnv:
        """The vector environment."""
        if self.kind == "scene":
            return SceneVectorEnv(self.factories, autoreset_mode=self.mode, copy=self.copy, num_threads=self.threads)
        return HybridVectorEnv(
            self.factories,
            self.num_envs // self.num_workers,
            autoreset_mode=self.mode,
            copy=self.copy,
            num_threads_per_worker=self.threads,
            worker_timeout=self.worker_timeout,
            on_worker_failure=self.on_worker_failure,
            max_worker_restarts=1000,
        )

    def make_twin(self) -> Any:
        """What it must equal: one thread, no processes."""
        if self.foreign:
            return SyncVectorEnv(self.factories, autoreset_mode=self.mode)
        return SceneVectorEnv(self.factories, autoreset_mode=self.mode, num_threads=1)

    def elsewhere(self, rng: np.random.Generator) -> Setup:
        """The same environments in another kind of vector environment, or on another split."""
        kind = "hybrid" if rng.random() < 0.3 else "scene"
        others = [workers for workers in (1, 2, 4) if workers != self.num_workers]
        return replace(self, kind=kind, num_workers=int(rng.choice(others)), threads=int(rng.integers(1, 3)))

    def __str__(self) -> str:
        where = "in process" if self.kind == "scene" else f"{self.num_workers} x {self.num_envs // self.num_workers}"
        return f"{self.task}, {where}, {self.mode.value}, copy={self.copy}, on failure {self.on_worker_failure}"


def draw_setup(rng: np.random.Generator, num_envs: int, task: str) -> Setup:
    """A random way to run `num_envs` environments of `task`."""
    return Setup(
        task,
        num_envs,
        kind="scene" if task not in FOREIGN and rng.random() < 0.25 else "hybrid",
        num_workers=int(rng.choice([1, 2, 2, 2, 4])),
        mode=list(AutoresetMode)[rng.choice(3, p=[0.5, 0.35, 0.15])],
        copy=bool(rng.random() < 0.7),
        threads=int(rng.integers(1, 3)),
        on_worker_failure="raise" if rng.random() < 0.15 else "restart",
        worker_timeout=5.0 if rng.random() < 0.2 else None,
    )
