"""`superdex check`: whether a task keeps the promises that make it fit for large batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from superdex.lab.apps.checking import nearest
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.options import CfgOption, TaskName, shown
from superdex.lab.apps.tables import make_console, make_table
from superdex.lab.apps.tasks import configured_task
from superdex.lab.gym.testing import CHECKS, Verdict, check_task

__all__ = ["Check"]

_STYLES = {"passed": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


@dataclass(frozen=True, kw_only=True)
class Check:
    """Check a task: its spaces, determinism, rows, scene name, snapshots and more, each with a remedy.

    The exit code is 0 if nothing failed, 1 if something did. Warnings do not count as failures.
    """

    task: TaskName
    """What to check."""
    cfg: CfgOption = ()
    """Fields of the task's configuration, as in --cfg steps_per_episode=500 randomize_physics=0.2."""
    only: Annotated[tuple[str, ...], shown("CHECK [...]", "all")] = ()
    """Run these checks only, by the names in the table."""
    no_workers: bool = False
    """Leave out the check that starts worker processes, which takes a few seconds."""

    def run(self) -> int:
        """Check and print a table; returns the exit code."""
        task = configured_task(self.task, self.cfg)
        env_class = task.env_class
        cfg = env_class.Cfg.make(task.fields)
        for name in self.only:
            if name not in CHECKS:
                raise UserError(f"--only: there is no check {name!r}. {nearest(name, CHECKS)}")
        if self.no_workers and self.only == ("workers",):
            raise UserError("--only workers leaves nothing to check with --no_workers.")
        with Console(stderr=True).status(f"checking {env_class.__name__}"):
            verdicts = check_task(env_class, cfg, only=self.only or None, workers=not self.no_workers)
        make_console().print(verdict_table(f"{env_class.__name__} ({self.task})", verdicts))
        return int(any(verdict.status == "failed" for verdict in verdicts))


def verdict_table(title: str, verdicts: list[Verdict]) -> Table:
    """A row per verdict."""
    table = make_table(escape(title), "check", "verdict", "remedy", text=["verdict", "remedy"])
    for verdict in verdicts:
        style = _STYLES[verdict.status]
        table.add_row(verdict.check, f"[{style}]{verdict.status}[/]: {escape(verdict.message)}", escape(verdict.remedy))
    return table
