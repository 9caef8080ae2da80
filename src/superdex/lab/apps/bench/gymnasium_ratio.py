"""Speed per environment step against Gymnasium's own vectorizers, on the same scalar environments.

Two comparisons: the largest split over workers with a `SyncVectorEnv` and an
`AsyncVectorEnv` of the sizes that suit those, and a few environments on one
thread of this process with a `SyncVectorEnv` of as many. The sides take turns
in short blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from superdex.lab.apps.bench.fresh import in_fresh_process
from superdex.lab.apps.bench.laps import Lap, median_ratio, median_speed
from superdex.lab.apps.bench.measuring import Plan, Runner, alternate
from superdex.lab.apps.bench.settings import Announce, Settings, Sizes
from superdex.lab.apps.bench.startup import Split

__all__ = ["GymnasiumResult", "measure_gymnasium"]


@dataclass(frozen=True, kw_only=True)
class GymnasiumResult:
    """One of our vector environments against one of Gymnasium's."""

    task: str
    ours: str
    theirs: str
    control_fps: float
    their_control_fps: float
    ratio: float
    """How many times as fast ours is, per environment step."""
    laps: dict[str, list[Lap]]


def measure_gymnasium(settings: Settings, announce: Announce) -> Iterator[list[GymnasiumResult]]:
    """Measure both comparisons for each task, each in a fresh process; after each, yields what there is so far."""
    results: list[GymnasiumResult] = []
    for task in settings.tasks:
        largest = Split(task, max(settings.num_workers), max(settings.num_envs_per_worker))
        few = Split(task, 0, settings.sizes.few)
        for split, compare in ((largest, compare_many), (few, compare_few)):
            announce(f"gymnasium: {split}")
            laps = in_fresh_process(compare, split, settings.plan, settings.sizes)
            results += _results(task.name, laps)
            yield results


def _results(task: str, laps: dict[str, list[Lap]]) -> list[GymnasiumResult]:
    ours, *others = laps
    return [
        GymnasiumResult(
            task=task,
            ours=ours,
            theirs=theirs,
            control_fps=median_speed(laps[ours]),
            their_control_fps=median_speed(laps[theirs]),
            ratio=median_ratio(laps[ours], laps[theirs]),
            laps={name: laps[name] for name in (ours, theirs)},
        )
        for theirs in others
    ]


def compare_many(split: Split, plan: Plan, sizes: Sizes) -> dict[str, list[Lap]]:
    """The laps of the split, a `SyncVectorEnv` and an `AsyncVectorEnv`; to be run in a fresh process."""
    in_processes = split.task.factories(sizes.gymnasium_async)
    return _laps(
        {
            f"HybridVectorEnv {split.num_workers} x {split.num_envs_per_process}": split.make(),
            f"SyncVectorEnv {sizes.gymnasium_sync}": SyncVectorEnv(split.task.factories(sizes.gymnasium_sync)),
            f"AsyncVectorEnv {sizes.gymnasium_async}": AsyncVectorEnv(in_processes, context="spawn"),
        },
        plan,
    )


def compare_few(split: Split, plan: Plan, sizes: Sizes) -> dict[str, list[Lap]]:
    """The laps of a `SceneVectorEnv` and a `SyncVectorEnv` of as many; to be run in a fresh process."""
    count = split.num_envs
    return _laps(
        {
            f"SceneVectorEnv {count}, 1 thread": split.make(),
            f"SyncVectorEnv {count}": SyncVectorEnv(split.task.factories(count)),
        },
        plan,
    )


def _laps(envs: dict[str, VectorEnv], plan: Plan) -> dict[str, list[Lap]]:
    with ExitStack() as stack:
        for env in envs.values():
            stack.callback(env.close)
        return alternate({name: Runner(env, plan) for name, env in envs.items()}, plan)
