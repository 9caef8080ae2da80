"""`superdex check`: whether a task keeps the promises that make it fit for large batches."""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tables import make_console, make_table
from superdex.lab.apps.tasks import find_task
from superdex.lab.gym.envs import MochiEnv, TaskCfg
from superdex.lab.gym.testing import CHECKS, Verdict, check_task

__all__ = ["Check"]

_STYLES = {"passed": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


@dataclass(frozen=True, kw_only=True)
class Check:
    """Check a task: its spaces, determinism, rows, scene name, snapshots and more, each with a remedy.

    The exit code is 0 if nothing failed, 1 if something did. Warnings do not count as failures.
    """

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A registered task, by name (CartPole) or id (superdex_gym/CartPole-v0), or a class of your own, as
    module:Class. Modules are looked for in the working directory, too."""
    cfg: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="FIELD=VALUE [...]", help_behavior_hint="(default: none)")
    ] = ()
    """Configuration fields, as in --cfg steps_per_episode=100 use_gravity=False."""
    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="CHECK [...]", help_behavior_hint="(default: all)")] = ()
    """Run these checks only, by the names in the table."""
    no_workers: bool = False
    """Leave out the check that starts worker processes, which takes a few seconds."""

    def run(self) -> int:
        """Check and print a table; returns the exit code."""
        env_class, fields = _find(self.task)
        cfg = _configuration(env_class, {**fields, **dict(map(_parse, self.cfg))})
        for name in self.only:
            if name not in CHECKS:
                raise UserError(f"--only: there is no check {name!r}. {_nearest(name, CHECKS)}")
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


def _find(name: str) -> tuple[type[MochiEnv], dict[str, Any]]:
    """The class of that name, and the configuration fields that go with it.

    Raises:
        UserError: if there is none, or it is not a task.
    """
    module_name, colon, class_name = name.partition(":")
    if not colon:
        task = find_task(name)
        return task.env_class, task.fields
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UserError(f"Module {module_name!r} cannot be imported: {type(error).__name__}: {error}") from error
    tasks = [key for key, value in vars(module).items() if _is_task(value)]
    env_class = getattr(module, class_name, None)
    if env_class is None:
        raise UserError(f"Module {module_name!r} has no {class_name!r}. {_nearest(class_name, tasks)}")
    if not _is_task(env_class):
        raise UserError(f"{name} is not a class that derives from MochiEnv. {_nearest(class_name, tasks)}")
    return env_class, {}


def _is_task(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, MochiEnv) and value is not MochiEnv


def _parse(setting: str) -> tuple[str, Any]:
    """`field=value`, the value as Python writes it, or else as text."""
    field, equals, text = setting.partition("=")
    if not (field and equals):
        raise UserError(f"--cfg takes FIELD=VALUE, as in --cfg steps_per_episode=100, got {setting!r}.")
    try:
        return field, ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return field, {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _configuration(env_class: type[MochiEnv], fields: dict[str, Any]) -> TaskCfg:
    try:
        return env_class.Cfg.make(fields)
    except (TypeError, ValueError) as error:
        raise UserError(f"--cfg: {error}") from error


def _nearest(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known) or 'none'}."
