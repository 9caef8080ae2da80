"""What a finished run came to: a table on the console and `summary.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from superdex.lab.apps.tables import make_table
from superdex.lab.apps.train.atomic import replace_file
from superdex.lab.apps.train.policy_file import finite_or_none, read_policy
from superdex.lab.apps.train.progress import ProgressRow
from superdex.lab.apps.train.run_directory import RunDirectory

__all__ = ["summarize", "summary_table"]


def summarize(run: RunDirectory, rows: Sequence[ProgressRow]) -> dict[str, Any]:
    """The figures of a run with the progress `rows`, of which there is at least one; written to `summary.json`."""
    last, (_, best) = rows[-1], read_policy(run.best_policy)
    other = last.wall_seconds - last.stepping_seconds - last.learning_seconds
    summary = {
        "task_id": best.task_id,
        "steps": last.steps,
        "iterations": last.iteration,
        "episodes": last.episodes,
        "return_mean": finite_or_none(last.return_mean),
        "return_std": finite_or_none(last.return_std),
        "length_mean": finite_or_none(last.length_mean),
        "best_return_mean": best.return_mean,
        "best_policy_steps": best.steps,
        "wall_seconds": last.wall_seconds,
        "stepping_seconds": last.stepping_seconds,
        "learning_seconds": last.learning_seconds,
        "other_seconds": other,
        "steps_per_second": last.steps / last.wall_seconds,
    }
    text = json.dumps(summary, indent=1) + "\n"
    replace_file(run.summary, lambda path: path.write_text(text))
    return summary


def summary_table(summary: dict[str, Any]) -> Table:
    """The same to read."""
    table = make_table("Trained", "figure", "value", text=["value"])
    wall = summary["wall_seconds"]
    split = ", ".join(f"{name} {summary[f'{name}_seconds'] / wall:.0%}" for name in ("stepping", "learning", "other"))
    table.add_row(
        "return, mean of the last episodes", f"{_figure(summary['return_mean'])} ± {_figure(summary['return_std'])}"
    )
    table.add_row("episode length, mean", f"{_figure(summary['length_mean'])} steps")
    table.add_row(
        "best mean return", f"{_figure(summary['best_return_mean'])}, policy of {summary['best_policy_steps']:,} steps"
    )
    table.add_row("control steps", f"{summary['steps']:,} in {summary['iterations']:,} iterations")
    table.add_row("wall time", f"{wall:,.1f} s: {split}")
    table.add_row("speed", f"{summary['steps_per_second']:,.0f} steps/s")
    return table


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
