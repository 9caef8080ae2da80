"""Throughput, start-up and memory over splits of environments, against the raw `mujoco.batch` loop.

Each split takes turns, in blocks about as long as a lap, with a raw loop on as many
threads in total that starts every step from the same states under the same controls.
Where the environments live in workers their states are out of reach, so a
`SceneVectorEnv` with the same seeds and actions runs ahead, untimed, and lends
its own: where a block ends, the results of the two must be equal to the bit.

Shorter blocks would measure something else: after each pause the first steps wake
threads and processes up, which takes longer than a step of a small task.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np

from superdex.lab.apps.bench.fresh import in_fresh_process
from superdex.lab.apps.bench.laps import Lap, median_ratio, median_speed
from superdex.lab.apps.bench.measuring import Actions, Plan, interleave
from superdex.lab.apps.bench.raw_loop import RawLoop
from superdex.lab.apps.bench.settings import Announce, Settings
from superdex.lab.apps.bench.startup import Split, Startup, bytes_per_env, measure_startup, start
from superdex.lab.gym.utils.vector import BatchedStepResult, SceneVectorEnv

__all__ = ["SplitResult", "measure_sweep", "splits_of"]

ENV, RAW = "environments", "raw mujoco.batch"


@dataclass(frozen=True, kw_only=True)
class SplitResult:
    """One split's figures."""

    task: str
    num_workers: int
    """0: in process."""
    num_envs_per_process: int
    num_envs: int
    num_threads: int
    """In total, on either side."""
    num_substeps: int
    init_seconds: float
    memory_bytes: int | None
    bytes_per_env: float | None
    """Beyond the processes themselves; None for too few to tell."""
    control_fps: float
    """Control steps per second, summed over the environments."""
    simulation_fps: float
    """Physics steps per second, likewise."""
    ratio_to_raw: float
    """1 would mean that nothing is lost on the raw loop."""
    laps: dict[str, list[Lap]]


def splits_of(settings: Settings) -> Iterator[Split]:
    """For each task every split over workers, then as many environments as the most workers have, in process."""
    most = max(settings.num_workers)
    for task in settings.tasks:
        for num_workers, num_envs in product(settings.num_workers, settings.num_envs_per_worker):
            yield Split(task, num_workers, num_envs)
        for num_threads, num_envs in product(settings.num_threads, settings.num_envs_per_worker):
            yield Split(task, 0, most * num_envs, num_threads)


def measure_sweep(settings: Settings, announce: Announce) -> Iterator[list[SplitResult]]:
    """Measure all splits, each in a fresh process; after each, yields what there is so far, in the splits' order."""
    splits = list(dict.fromkeys(splits_of(settings)))
    baselines: dict[Split, Startup] = {}
    results: dict[Split, SplitResult] = {}
    # those that are baselines first: the others' memory is compared with theirs
    for split in sorted(splits, key=lambda split: split != split.baseline):
        announce(f"sweep {len(results) + 1} of {len(splits)}: {split}")
        startup, laps, num_substeps = in_fresh_process(measure_split, split, settings.plan)
        if split == split.baseline:
            baselines[split] = startup
        elif split.baseline not in baselines:
            baselines[split.baseline] = in_fresh_process(measure_startup, split.baseline, settings.plan)
        results[split] = _result(split, startup, baselines[split.baseline], laps, num_substeps)
        yield [results[each] for each in splits if each in results]


def _result(
    split: Split, startup: Startup, baseline: Startup, laps: dict[str, list[Lap]], num_substeps: int
) -> SplitResult:
    control_fps = median_speed(laps[ENV])
    return SplitResult(
        task=split.task.name,
        num_workers=split.num_workers,
        num_envs_per_process=split.num_envs_per_process,
        num_envs=split.num_envs,
        num_threads=split.total_threads,
        num_substeps=num_substeps,
        init_seconds=startup.init_seconds,
        memory_bytes=startup.memory.total if startup.memory else None,
        bytes_per_env=bytes_per_env(split, startup, baseline),
        control_fps=control_fps,
        simulation_fps=control_fps * num_substeps,
        ratio_to_raw=median_ratio(laps[ENV], laps[RAW]),
        laps=laps,
    )


def measure_split(split: Split, plan: Plan) -> tuple[Startup, dict[str, list[Lap]], int]:
    """Start-up, laps, and substeps of a control step; to be run in a fresh process."""
    env, startup = start(split, plan)
    twin = split.make_twin()
    with env, twin:
        race = _Race(split, env, twin, plan)
        block_steps = race.warm_up(plan)
        sides = {ENV: race.step_envs, RAW: race.raw.replay}
        laps = interleave(sides, split.num_envs, plan, block_steps, race.prepare, race.check)
        return startup, laps, race.raw.num_substeps


class _Race:
    """Environments and their raw loop, which get the same states and actions."""

    def __init__(self, split: Split, env: Any, twin: SceneVectorEnv, plan: Plan) -> None:
        self._split = split
        self._env = env
        self.raw = RawLoop(twin, split.total_threads)
        self._random_actions = Actions(env.action_space, plan.seed)
        env.reset(seed=plan.seed)
        twin.reset(seed=plan.seed)

    def prepare(self, num_steps: int) -> None:
        self._actions = [self._random_actions.draw() for _ in range(num_steps)]
        self._expected = self.raw.record(self._actions)

    def step_envs(self) -> float:
        begin = perf_counter()
        for action in self._actions:
            self._result = self._env.step(action)
        return perf_counter() - begin

    def check(self) -> None:
        """Raise unless all three came to the same."""
        if not _same(self._result, self._expected):
            raise RuntimeError(f"{self._split}: results differ from a SceneVectorEnv's. Nothing measured here counts.")
        if not self.raw.has_followed():
            raise RuntimeError(f"{self._split}: the raw loop's physics differs. Nothing measured here counts.")

    def warm_up(self, plan: Plan) -> int:
        """Go some steps; returns how many make a lap."""
        self.prepare(plan.warmup_steps)
        seconds = self.step_envs()
        self.raw.replay()
        self.check()
        return math.ceil(plan.min_seconds / seconds * plan.warmup_steps)


def _same(result: BatchedStepResult, expected: BatchedStepResult) -> bool:
    return all(map(np.array_equal, result[:4], expected[:4]))
