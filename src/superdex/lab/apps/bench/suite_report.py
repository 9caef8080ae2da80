"""What `superdex bench --suite` found, as a table."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from superdex.lab.apps.bench.contestants import ASYNC, ENVPOOL, HYBRID, OURS, RAW, SYNC
from superdex.lab.apps.bench.suite import SuiteReport
from superdex.lab.apps.tables import make_table

__all__ = ["suite_table"]

_HEADINGS = {
    RAW: "of raw MuJoCo",
    HYBRID: "x HybridVectorEnv",
    ENVPOOL: "x EnvPool",
    ASYNC: "x AsyncVectorEnv",
    SYNC: "x SyncVectorEnv",
}


def suite_table(report: SuiteReport) -> Table:
    """A row per task, number of environments and threads."""
    results = report.results
    present = [name for name in _HEADINGS if any(name in result.times_as_fast for result in results)]
    table = make_table(
        "Gymnasium's MuJoCo v5 tasks",
        "task", "environments", "threads", "our FPS", *(_HEADINGS[name] for name in present),
        caption=_caption(report),
    )  # fmt: skip
    previous = None
    for result in results:
        if previous not in (None, result.task):
            table.add_section()
        previous = result.task
        ratios = (result.times_as_fast.get(name) for name in present)
        table.add_row(
            result.task,
            f"{result.num_envs:,}",
            str(result.num_threads),
            f"{result.control_fps[OURS]:,.0f}",
            *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
        )
    return table


def _caption(report: SuiteReport) -> str:
    lines = [
        "Our FPS: control steps per second of a SceneVectorEnv. Of raw MuJoCo: speed over that of mujoco.batch, same",
        "states, as many threads. x: how many times as fast as that contestant, per environment step. A SyncVectorEnv",
        "has at most 100 environments, an AsyncVectorEnv 8.",
    ]
    if report.envpool is not None:
        lines[-1] += f" EnvPool: {report.envpool}."
    if report.left_out:
        lines.append(f"Left out: {', '.join(report.left_out)}. To have all: pip install 'superdex-gym[bench]'.")
    return escape("\n".join(lines))
