"""Splits of environments over processes: how to make one, how long that takes, and what memory it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, NamedTuple

from superdex.lab.apps.bench.measuring import Actions, Plan
from superdex.lab.apps.bench.memory import Memory, memory_of_family
from superdex.lab.apps.tasks import Task
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv

__all__ = ["Split", "Startup", "bytes_per_env", "measure_startup", "start"]

_STEPS_BEFORE_MEMORY = 5
_LEAST_DIFFERENCE = 250
"""Environments. The memory of a process itself varies by some hundred KB from start to start."""


@dataclass(frozen=True)
class Split:
    """How many environments of a task, and where they step."""

    task: Task
    num_workers: int
    """Worker processes, or 0 for a `SceneVectorEnv` in the measuring process."""
    num_envs_per_process: int
    num_threads: int = 1
    """Native threads of each process that steps environments."""
    use_shared_scenes: bool = True

    @property
    def num_envs(self) -> int:
        """All environments."""
        return max(self.num_workers, 1) * self.num_envs_per_process

    @property
    def total_threads(self) -> int:
        """Native threads of all processes."""
        return max(self.num_workers, 1) * self.num_threads

    @property
    def baseline(self) -> Split:
        """The same processes with one environment per thread: what they take whatever they step."""
        return replace(self, num_envs_per_process=self.num_threads)

    def make(self) -> HybridVectorEnv | SceneVectorEnv:
        """The vector environment."""
        factories = self.task.factories(self.num_envs, use_shared_scenes=self.use_shared_scenes)
        if self.num_workers == 0:
            return SceneVectorEnv(factories, num_threads=self.num_threads)
        return HybridVectorEnv(factories, self.num_envs_per_process, num_threads_per_worker=self.num_threads)

    def make_twin(self) -> SceneVectorEnv:
        """The same environments in this process, on as many threads."""
        return SceneVectorEnv(self.task.factories(self.num_envs), num_threads=self.total_threads)

    def __str__(self) -> str:
        where = f"{self.num_workers} workers x" if self.num_workers else "in process,"
        return f"{self.task.name}, {where} {self.num_envs_per_process}"


class Startup(NamedTuple):
    """What a split takes to get going."""

    init_seconds: float
    """Construction and first reset [s]."""
    memory: Memory | None
    """Of the process and its workers after a few steps."""


def start(split: Split, plan: Plan) -> tuple[Any, Startup]:
    """Make the vector environment; it has been reset with the plan's seed and made a few steps."""
    begin = perf_counter()
    env = split.make()
    env.reset(seed=plan.seed)
    seconds = perf_counter() - begin
    actions = Actions(env.action_space, plan.seed)
    for _ in range(_STEPS_BEFORE_MEMORY):
        env.step(actions.draw())
    return env, Startup(seconds, memory_of_family())


def measure_startup(split: Split, plan: Plan) -> Startup:
    """Make the vector environment and close it again; to be run in a fresh process."""
    env, startup = start(split, plan)
    env.close()
    return startup


def bytes_per_env(split: Split, startup: Startup, baseline: Startup) -> float | None:
    """Memory of an environment beyond the processes themselves, or None for too few to tell.

    That is what the split takes more than the same processes with one
    environment per thread (`split.baseline`), for each environment that it has more.
    """
    more = split.num_envs - split.baseline.num_envs
    if startup.memory is None or baseline.memory is None or more < _LEAST_DIFFERENCE:
        return None
    return (startup.memory.data - baseline.memory.data) / more
