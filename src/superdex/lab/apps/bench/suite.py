"""`superdex bench --suite gymnasium-v5`: Gymnasium's MuJoCo tasks, ours against everybody else's.

For each task, number of environments and number of threads, the contestants are
made in one fresh process and take turns in short laps; the ratios are medians
over the turns. `mujoco.batch` always follows our `SceneVectorEnv`, whose block of
steps it repeats, so that a ratio is of the same physics from the same states.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product

from superdex.lab.apps.bench.contestants import ENVPOOL, MODULES, OURS, RAW, Match, enter, envpool_version
from superdex.lab.apps.bench.fresh import in_fresh_process
from superdex.lab.apps.bench.laps import Lap, median_ratio, median_speed, ratio_quartiles
from superdex.lab.apps.bench.measuring import Plan, alternate
from superdex.lab.apps.bench.settings import Announce
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tasks import Task, all_tasks

__all__ = ["SuiteReport", "SuiteResult", "SuiteSettings", "find_suite_tasks", "measure_suite"]

_PREFIX = "Gymnasium"


@dataclass(frozen=True, kw_only=True)
class SuiteSettings:
    """What to measure."""

    tasks: tuple[Task, ...]
    num_envs: tuple[int, ...]
    num_threads: tuple[int, ...]
    plan: Plan


@dataclass(frozen=True, kw_only=True)
class SuiteResult:
    """One task with one number of environments on one number of threads."""

    task: str
    """As "Ant-v5"."""
    num_envs: int
    num_threads: int
    sizes: dict[str, int]
    """Environments of each contestant."""
    control_fps: dict[str, float]
    """Control steps per second of each contestant, summed over its environments."""
    times_as_fast: dict[str, float]
    """As each contestant, per environment step, is our `SceneVectorEnv`: the median over the turns."""
    quartiles: dict[str, tuple[float, float]]
    """Between which lies the middle half of the ratios that `times_as_fast` are medians of."""
    laps: dict[str, list[Lap]]


@dataclass(frozen=True, kw_only=True)
class SuiteReport:
    """All results, and who took part."""

    envpool: str | None
    """Which EnvPool, and the MuJoCo that it is built with; None if it is missing."""
    left_out: tuple[str, ...]
    """Contestants that lack a library."""
    results: list[SuiteResult]


def find_suite_tasks(names: tuple[str, ...] | None) -> tuple[Task, ...]:
    """The tasks of the suite of these names ("Ant" or "Ant-v5"), or all.

    Raises:
        UserError: if there is no such task.
    """
    suite = {task.name.removeprefix(_PREFIX): task for task in all_tasks() if task.name.startswith(_PREFIX)}
    chosen = []
    for name in suite if names is None else names:
        bare = name.rpartition("/")[2].removeprefix(_PREFIX).removesuffix("-v5")
        if bare not in suite:
            raise UserError(f"--env {name}: there is no such task in the suite. It has: {', '.join(suite)}.")
        chosen.append(suite[bare])
    return tuple(dict.fromkeys(chosen))


def measure_suite(settings: SuiteSettings, announce: Announce) -> Iterator[SuiteReport]:
    """Measure everything, each combination in a fresh process; after each, yields what there is so far."""
    left_out = tuple(name for name, module in MODULES.items() if find_spec(module) is None)
    envpool = None if ENVPOOL in left_out else in_fresh_process(envpool_version)
    matches = [Match(*parts) for parts in product(settings.tasks, settings.num_envs, settings.num_threads)]
    results: list[SuiteResult] = []
    for number, match in enumerate(matches, 1):
        announce(f"{number} of {len(matches)}: {match}")
        names = tuple(name for name in match.contestants if name not in left_out)
        results.append(_result(match, in_fresh_process(race, match, names, settings.plan)))
        yield SuiteReport(envpool=envpool, left_out=left_out, results=results)


def _result(match: Match, laps: dict[str, list[Lap]]) -> SuiteResult:
    others = {name: each for name, each in laps.items() if name != OURS}
    return SuiteResult(
        task=match.original_id,
        num_envs=match.num_envs,
        num_threads=match.num_threads,
        sizes={name: match.size(name) for name in laps},
        control_fps={name: median_speed(each) for name, each in laps.items()},
        times_as_fast={name: median_ratio(laps[OURS], each) for name, each in others.items()},
        quartiles={name: ratio_quartiles(laps[OURS], each) for name, each in others.items()},
        laps=laps,
    )


def race(match: Match, names: tuple[str, ...], plan: Plan) -> dict[str, list[Lap]]:
    """The laps of the contestants; to be run in a fresh process."""
    with ExitStack() as stack:
        return alternate(enter(match, names, plan, stack), plan, together=(OURS, RAW))
