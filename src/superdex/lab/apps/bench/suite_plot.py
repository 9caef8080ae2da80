"""The figure of `superdex bench --suite`: control steps per second of every contestant, a panel per task."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from superdex.lab.apps.bench.contestants import ASYNC, ENVPOOL, HYBRID, OURS, RAW, SYNC
from superdex.lab.apps.bench.suite import SuiteResult
from superdex.lab.apps.style import INK, MUTED, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["charted", "draw_suite"]

_NUM_ENVS = 1000
_COLUMNS = 4
_BARS = {  # from top to bottom, with their labels and colours
    RAW: ("raw mujoco.batch", "#c9ced6"),
    OURS: ("SuperDex Gym, in process", "#e07b39"),
    HYBRID: ("SuperDex Gym, workers", "#f0b48c"),
    ENVPOOL: ("EnvPool", "#2171b5"),
    ASYNC: ("AsyncVectorEnv of {}", "#6baed6"),
    SYNC: ("SyncVectorEnv of {}", "#9ecae1"),
}


def charted(results: list[SuiteResult]) -> list[SuiteResult]:
    """The results that the figure shows: on the most threads, with 1000 environments or the next best number."""
    threads = max(result.num_threads for result in results)
    measured = {result.num_envs for result in results if result.num_threads == threads}
    num_envs = min(measured, key=lambda count: abs(math.log(count / _NUM_ENVS)))
    return [result for result in results if (result.num_envs, result.num_threads) == (num_envs, threads)]


def draw_suite(results: list[SuiteResult], path: Path) -> None:
    """Draw the panels, 10 inches wide."""
    import matplotlib
    from matplotlib.figure import Figure

    shown = charted(results)
    columns = min(len(shown), _COLUMNS)
    rows = math.ceil(len(shown) / columns)
    bars = [name for name in _BARS if any(name in result.control_fps for result in shown)]
    with matplotlib.rc_context({**STYLE, "axes.grid": False, "axes.spines.left": False}):  # type: ignore[arg-type]
        figure = Figure(figsize=(10, 0.5 + rows * (0.55 + 0.2 * len(bars))), layout="constrained", facecolor="white")
        figure.suptitle(_title(shown[0]), x=0.01, ha="left", fontsize=11, fontweight="bold")
        grid = figure.subplots(rows, columns, squeeze=False)
        for index, axes in enumerate(grid.flat):
            if index < len(shown):
                _draw_panel(axes, shown[index], bars, labels=index % columns == 0)
            else:
                axes.set_axis_off()
        figure.savefig(path, dpi=200)


def _title(result: SuiteResult) -> str:
    threads = f"{result.num_threads} thread{'s' * (result.num_threads > 1)}"
    return f"Gymnasium's MuJoCo v5 tasks: control steps per second, {result.num_envs:,} environments, {threads}"


def _draw_panel(axes: Axes, result: SuiteResult, bars: list[str], labels: bool) -> None:
    speeds = [result.control_fps.get(name, 0.0) for name in bars]
    places = range(len(bars), 0, -1)
    axes.barh(places, speeds, 0.78, color=[_BARS[name][1] for name in bars])
    for place, name, speed in zip(places, bars, speeds, strict=True):
        text = f" {speed:,.0f}" if name in result.control_fps else " not measured"
        weight = "bold" if name == OURS else "normal"
        axes.text(speed, place, text, va="center", fontsize=8, fontweight=weight, color=INK)
    axes.set_title(result.task.removesuffix("-v5"), loc="left", pad=4, fontsize=9)
    axes.set_xlim(0, 1.32 * max(speeds))
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_yticks(list(places), [_BARS[name][0].format(result.sizes.get(name)) for name in bars] if labels else [])
    axes.tick_params(axis="y", length=0, labelcolor=MUTED)
