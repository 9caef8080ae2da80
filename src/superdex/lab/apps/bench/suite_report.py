"""What `superdex bench --suite` found, as a table."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from superdex.lab.apps.bench.contestants import ASYNC, ENVPOOL, HYBRID, OURS, RAW, SYNC
from superdex.lab.apps.bench.suite import SuiteReport, SuiteResult
from superdex.lab.apps.tables import make_table

__all__ = ["suite_table"]

_HEADINGS = {
    RAW: "of raw MuJoCo",
    HYBRID: "x HybridVectorEnv",
    ENVPOOL: "x EnvPool",
    ASYNC: "x AsyncVectorEnv",
    SYNC: "x SyncVectorEnv",
}
_WITH_SPREAD = (RAW, ENVPOOL)
"""The closest ones, where a few per cent may be chance."""


def suite_table(report: SuiteReport) -> Table:
    """A row per task, number of environments and threads."""
    results = report.results
    present = [name for name in _HEADINGS if any(name in result.times_as_fast for result in results)]
    table = make_table(
        "Gymnasium's MuJoCo v5 tasks",
        "task", "envs", "threads", "our FPS", *(_HEADINGS[name] for name in present),
        caption=_caption(report),
    )  # fmt: skip
    previous = None
    for result in results:
        if previous not in (None, result.task):
            table.add_section()
        previous = result.task
        table.add_row(
            result.task,
            f"{result.num_envs:,}",
            str(result.num_threads),
            f"{result.control_fps[OURS]:,.0f}",
            *(_ratio(result, name) for name in present),
        )
    return table


def _ratio(result: SuiteResult, name: str) -> str:
    if name not in result.times_as_fast:
        return ""
    ratio = f"{result.times_as_fast[name]:.2f}"
    if name not in _WITH_SPREAD:
        return ratio
    first, third = result.quartiles[name]
    return f"{ratio}±{(third - first) / 2:.2f}"


def _caption(report: SuiteReport) -> str:
    lines = [
        "Our FPS: control steps per second of a SceneVectorEnv. Of raw MuJoCo: speed over that of mujoco.batch, same",
        "states, as many threads. x: how many times as fast as that contestant, per environment step. A SyncVectorEnv",
        "has at most 100 environments, an AsyncVectorEnv 8. Ratios are medians over the turns, ± half the",
        "distance between their quartiles: differences of this size may be chance.",
    ]
    if report.envpool is not None:
        lines[-1] += f" EnvPool: {report.envpool}."
    if report.left_out:
        lines.append(f"Left out: {', '.join(report.left_out)}. To have all: pip install 'superdex-gym[bench]'.")
    return escape("\n".join(lines))
