"""The learning curve: return against steps and against wall time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from superdex.lab.apps.atomic import replace_file
from superdex.lab.apps.style import INK, MUTED, STYLE
from superdex.lab.apps.train.policy_file import PolicyInfo
from superdex.lab.apps.train.progress import ProgressRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_learning_curve"]

_LINE, _BAND = "#2171b5", "#9ecae1"


def draw_learning_curve(rows: Sequence[ProgressRow], best: PolicyInfo | None, title: str, path: Path) -> None:
    """Draw mean return and the range of most episodes to `path`, a PNG of 9 inches; replaces it atomically.

    Args:
        rows: the iterations; those before the first episode's end have no point.
        best: the best policy, if there is one: the iteration in which it acted is marked with its return.
        title: stands above.
        path: the file.
    """
    import matplotlib
    from matplotlib.figure import Figure

    known = [row for row in rows if not math.isnan(row.return_mean)]
    steps = np.array([row.steps for row in known])
    seconds = np.array([row.wall_seconds for row in known])
    unit, name = (60.0, "minutes") if seconds.size and seconds[-1] > 300 else (1.0, "seconds")
    mark = _iteration_of(best, known)
    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(9, 3.4), layout="constrained", facecolor="white")
        left, right = figure.subplots(1, 2, sharey=True)
        _draw(left, steps / 1e6, known, mark, "million control steps")
        _draw(right, seconds / unit, known, mark, f"{name} of training")
        left.set_ylabel("return")
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=2)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
        replace_file(path, lambda file: figure.savefig(file, dpi=150, format="png"))


def _iteration_of(best: PolicyInfo | None, rows: Sequence[ProgressRow]) -> int | None:
    """The index of the row with that policy's return, of equals the last, as it is itself; None if there is none."""
    if best is None:
        return None
    return max((index for index, row in enumerate(rows) if row.return_mean == best.return_mean), default=None)


def _draw(axes: Axes, x: NDArray[np.float64], rows: Sequence[ProgressRow], mark: int | None, label: str) -> None:
    mean = np.array([row.return_mean for row in rows])
    low, high = (np.array([getattr(row, name) for row in rows]) for name in ("return_low", "return_high"))
    axes.fill_between(x, low, high, color=_BAND, alpha=0.4, linewidth=0, label="10th to 90th percentile")
    axes.plot(x, mean, color=_LINE, linewidth=1.8, label="mean of the last episodes")
    if mark is not None:
        axes.plot(x[mark], mean[mark], "o", color=_LINE, markersize=5)
        axes.annotate(
            f"{mean[mark]:,.0f}", (x[mark], mean[mark]), textcoords="offset points", xytext=(0, 7),
            ha="right" if x[mark] > 0.9 * x[-1] else "center", fontsize=8, color=MUTED,
        )  # fmt: skip
    axes.set_xlim(left=0)
    axes.set_xlabel(label)
