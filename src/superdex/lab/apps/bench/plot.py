"""The figure of `superdex bench`: throughput over the splits, and what is left of raw MuJoCo's speed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from superdex.lab.apps.bench.sweep import SplitResult
from superdex.lab.apps.style import INK, MUTED, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_figure"]

_IN_PROCESS = "#e07b39"
_WORKERS = ("#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#084594")


def draw_figure(results: list[SplitResult], path: Path) -> None:
    """Draw a panel of curves per task, and bars of the ratio to raw MuJoCo below; 9 inches wide."""
    import matplotlib
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(result.task for result in results))
    columns = min(len(tasks), 3)
    rows = math.ceil(len(tasks) / columns)
    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(9, 2.6 * rows + 2.9), layout="constrained", facecolor="white")
        grid = figure.add_gridspec(rows + 1, columns, height_ratios=[1.0] * rows + [0.95])
        for index, task in enumerate(tasks):
            axes = figure.add_subplot(grid[index // columns, index % columns])
            _draw_curves(axes, [result for result in results if result.task == task], first=index == 0)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=min(len(labels), 6))
        _draw_ratios(figure.add_subplot(grid[rows, :]), results, tasks)
        figure.savefig(path, dpi=200)


def _draw_curves(axes: Axes, results: list[SplitResult], first: bool) -> None:
    lines: dict[str, list[SplitResult]] = {}
    for result in results:
        lines.setdefault(_kind(result), []).append(result)
    for kind, points in lines.items():
        points.sort(key=lambda point: point.num_envs)
        axes.plot(
            [point.num_envs for point in points],
            [point.control_fps / 1000 for point in points],
            color=_color(points[0], results),
            linestyle="-" if points[0].num_workers else "--",
            marker="o",
            markersize=4,
            label=kind,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()
    axes.set_ylim(0, 1.06 * axes.dataLim.y1)
    axes.set_title(results[0].task, loc="left")
    axes.set_xlabel("environments")
    if first:
        axes.set_ylabel("1000 control steps per second")


def _draw_ratios(axes: Axes, results: list[SplitResult], tasks: list[str]) -> None:
    """For each task, the largest batch of each kind."""
    kinds = list(dict.fromkeys(map(_kind, results)))
    width = 0.8 / len(kinds)
    small = max(4, min(8, 24 / len(kinds)))
    for k, kind in enumerate(kinds):
        for t, task in enumerate(tasks):
            of_kind = [result for result in results if result.task == task and _kind(result) == kind]
            if not of_kind:
                continue  # the measurements ended before it
            largest = max(of_kind, key=lambda result: result.num_envs)
            x = t + (k - (len(kinds) - 1) / 2) * width
            axes.bar(x, largest.ratio_to_raw, 0.92 * width, color=_color(largest, results))
            axes.text(x, 0.04, f"{largest.num_envs:,}\nenvs", ha="center", va="bottom", fontsize=small, color="white")
            axes.text(
                x, largest.ratio_to_raw + 0.02, f"{largest.ratio_to_raw:.2f}", ha="center", va="bottom", fontsize=small
            )
    axes.axhline(1, color=MUTED, linewidth=1, linestyle=":", zorder=0.5)
    axes.set_title("Speed relative to the raw mujoco.batch loop on as many threads", loc="left")
    axes.set_ylabel("fraction of raw speed")
    axes.set_xticks(range(len(tasks)), tasks)
    axes.set_ylim(0, max(1.18, 1.1 * max(result.ratio_to_raw for result in results)))
    axes.tick_params(axis="x", length=0, labelsize=9, labelcolor=INK)


def _kind(result: SplitResult) -> str:
    if result.num_workers == 0:
        return f"in process, {result.num_threads} thread{'s' * (result.num_threads > 1)}"
    return f"{result.num_workers} worker{'s' * (result.num_workers > 1)}"


def _color(result: SplitResult, results: list[SplitResult]) -> str:
    if result.num_workers == 0:
        return _IN_PROCESS
    counts = sorted({each.num_workers for each in results if each.num_workers})
    darkness = (counts.index(result.num_workers) + 1) / len(counts)
    return _WORKERS[math.ceil(darkness * len(_WORKERS)) - 1]
