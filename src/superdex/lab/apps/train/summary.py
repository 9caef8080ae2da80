"""What a run came to: the result of `train`, `summary.json`, and a table on the console."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from superdex.lab.apps.atomic import replace_file
from superdex.lab.apps.tables import make_table
from superdex.lab.apps.train.policy_file import finite_or_none, read_policy
from superdex.lab.apps.train.progress import ProgressRow
from superdex.lab.apps.train.run_directory import RunDirectory

__all__ = ["TrainResult", "summarize", "summary_table", "write_summary"]


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What a run came to; a figure that does not exist is None.

    `load_policy(result.run_dir)` gives the best policy.
    """

    run_dir: Path
    """Where it is kept."""
    finished: bool
    """Whether it came to its end; False after Ctrl-C, when it can be resumed."""
    task_id: str
    """As Gymnasium knows the task, or module:Class."""
    steps: int
    """Control steps, summed over the environments."""
    iterations: int
    """Updates of the policy."""
    episodes: int
    """Episodes that ended."""
    return_mean: float | None
    """Mean return of the last episodes (1000, or as many as there are)."""
    return_std: float | None
    """Standard deviation of these returns."""
    length_mean: float | None
    """Mean length of the same episodes [control steps]."""
    best_return_mean: float | None
    """Mean return of the best policy, when it acted."""
    best_policy_steps: int
    """Control steps before the best policy."""
    wall_seconds: float
    """Duration of training, over all sessions [s]."""
    stepping_seconds: float
    """Part of it in which environments were stepped [s]."""
    learning_seconds: float
    """Part of it in which policy and value function were evaluated and updated [s]."""
    other_seconds: float
    """The rest of it [s]."""
    steps_per_second: float
    """Control steps per second of all of it [1/s]."""


def summarize(run: RunDirectory, rows: Sequence[ProgressRow], *, finished: bool) -> TrainResult:
    """The figures of a run with the progress `rows`, of which there is at least one."""
    last, (_, best) = rows[-1], read_policy(run.best_policy)
    return TrainResult(
        run_dir=run.path,
        finished=finished,
        task_id=best.task_id,
        steps=last.steps,
        iterations=last.iteration,
        episodes=last.episodes,
        return_mean=finite_or_none(last.return_mean),
        return_std=finite_or_none(last.return_std),
        length_mean=finite_or_none(last.length_mean),
        best_return_mean=best.return_mean,
        best_policy_steps=best.steps,
        wall_seconds=last.wall_seconds,
        stepping_seconds=last.stepping_seconds,
        learning_seconds=last.learning_seconds,
        other_seconds=last.wall_seconds - last.stepping_seconds - last.learning_seconds,
        steps_per_second=last.steps / last.wall_seconds,
    )


def write_summary(run: RunDirectory, result: TrainResult) -> None:
    """Write the figures of a finished run to `summary.json`."""
    figures = {name: value for name, value in asdict(result).items() if name not in ("run_dir", "finished")}
    text = json.dumps(figures, indent=1) + "\n"
    replace_file(run.summary, lambda path: path.write_text(text))


def summary_table(result: TrainResult) -> Table:
    """The same to read."""
    table = make_table("Trained", "figure", "value", text=["value"])
    wall = result.wall_seconds
    parts = {"stepping": result.stepping_seconds, "learning": result.learning_seconds, "other": result.other_seconds}
    split = ", ".join(f"{name} {seconds / wall:.0%}" for name, seconds in parts.items())
    returns = f"{_figure(result.return_mean)} ± {_figure(result.return_std)}"
    table.add_row("return, mean of the last episodes", returns)
    table.add_row("episode length, mean", f"{_figure(result.length_mean)} steps")
    best = f"{_figure(result.best_return_mean)}, policy of {result.best_policy_steps:,} steps"
    table.add_row("best mean return", best)
    table.add_row("control steps", f"{result.steps:,} in {result.iterations:,} iterations")
    table.add_row("wall time", f"{wall:,.1f} s: {split}")
    table.add_row("speed", f"{result.steps_per_second:,.0f} steps/s")
    return table


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
