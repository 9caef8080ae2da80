"""Large numbers: time per environment step as their number grows, and how fast ten thousand start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from superdex.lab.apps.bench.fresh import in_fresh_process
from superdex.lab.apps.bench.laps import Lap, median_ratio, median_speed
from superdex.lab.apps.bench.measuring import Plan, Runner, alternate
from superdex.lab.apps.bench.settings import Announce, Settings
from superdex.lab.apps.bench.startup import Split, bytes_per_env, measure_startup
from superdex.lab.apps.tasks import Task

__all__ = ["GrowthResult", "ManyResult", "ScalingResult", "measure_scaling"]


@dataclass(frozen=True, kw_only=True)
class GrowthResult:
    """A small and a large batch in one process, stepped in turns."""

    num_envs: tuple[int, int]
    num_threads: int
    microseconds_per_env_step: tuple[float, float]
    """Wall time of a step of the batch, over its environments [us]."""
    ratio: float
    """Of the large batch's time per environment step to the small one's."""
    laps: dict[str, list[Lap]]


@dataclass(frozen=True, kw_only=True)
class ManyResult:
    """The start of very many environments in few workers."""

    num_envs: int
    num_workers: int
    init_seconds: float
    bytes_per_env: float | None
    """Beyond the processes themselves."""


@dataclass(frozen=True, kw_only=True)
class ScalingResult:
    """Both, for one task."""

    task: str
    growth: GrowthResult
    many: ManyResult


def measure_scaling(settings: Settings, announce: Announce) -> Iterator[ScalingResult]:
    """Measure the first task, in fresh processes; yields the result."""
    task = settings.tasks[0]
    yield ScalingResult(
        task=task.name, growth=_measure_growth(task, settings, announce), many=_measure_many(task, settings, announce)
    )


def _measure_growth(task: Task, settings: Settings, announce: Announce) -> GrowthResult:
    num_threads = max(settings.num_threads)
    small, large = (Split(task, 0, num_envs, num_threads) for num_envs in settings.sizes.growth)
    announce(f"scaling: {task.name}, {small.num_envs} and {large.num_envs} in process")
    laps = in_fresh_process(race_sizes, small, large, settings.plan)
    small_laps, large_laps = laps.values()
    return GrowthResult(
        num_envs=settings.sizes.growth,
        num_threads=num_threads,
        microseconds_per_env_step=(1e6 / median_speed(small_laps), 1e6 / median_speed(large_laps)),
        ratio=median_ratio(small_laps, large_laps),
        laps=laps,
    )


def _measure_many(task: Task, settings: Settings, announce: Announce) -> ManyResult:
    num_workers = settings.sizes.many_workers
    split = Split(task, num_workers, settings.sizes.many // num_workers)
    announce(f"scaling: {split}")
    startup = in_fresh_process(measure_startup, split, settings.plan)
    baseline = in_fresh_process(measure_startup, split.baseline, settings.plan)
    return ManyResult(
        num_envs=split.num_envs,
        num_workers=num_workers,
        init_seconds=startup.init_seconds,
        bytes_per_env=bytes_per_env(split, startup, baseline),
    )


def race_sizes(small: Split, large: Split, plan: Plan) -> dict[str, list[Lap]]:
    """The laps of two batches that are both alive; to be run in a fresh process."""
    with ExitStack() as stack:
        runners = {}
        for split in (small, large):
            env = split.make()
            stack.callback(env.close)
            runners[str(split.num_envs)] = Runner(env, plan)
        return alternate(runners, plan)
