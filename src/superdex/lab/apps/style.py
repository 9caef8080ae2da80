"""How the figures of `superdex bench` and `superdex train` look."""

from __future__ import annotations

__all__ = ["INK", "MUTED", "STYLE"]

INK, MUTED, _GRID = "#1f2430", "#5b6372", "#e3e6eb"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
}
