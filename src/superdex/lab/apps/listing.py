"""`superdex list`: the registered tasks at a glance."""

from __future__ import annotations

from dataclasses import dataclass

from gymnasium.spaces import Box
from rich.table import Table

from superdex.lab.apps.tables import make_console, make_table
from superdex.lab.apps.tasks import Task, all_tasks

__all__ = ["List"]


@dataclass(frozen=True, kw_only=True)
class List:
    """Show the registered tasks: their sizes, their rates, and how a variant differs from its base."""

    def run(self) -> int:
        """Print the table; returns the exit code."""
        make_console().print(task_table(all_tasks()))
        return 0


def task_table(tasks: list[Task]) -> Table:
    """A row per task."""
    table = make_table(
        "Registered tasks",
        "id", "observation", "action", "control / simulation [Hz]", "differs by",
        text=["differs by"],
    )  # fmt: skip
    for task in tasks:
        env = task.make()
        table.add_row(
            task.task_id,
            _shape(env.observation_space),
            _shape(env.action_space),
            f"{1 / env.dt:g} / {env.cfg.num_substeps / env.dt:g}",
            ", ".join(f"{field}={value!r}" for field, value in task.fields.items()),
        )
        env.close()
    return table


def _shape(space: Box) -> str:
    return " x ".join(map(str, space.shape))
