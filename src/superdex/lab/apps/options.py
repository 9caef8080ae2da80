"""Options that several subcommands have: one name, one look in the help and one range for one thing."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import tyro

from superdex.lab.apps.errors import UserError

__all__ = [
    "TASK_HELP",
    "CfgOption",
    "OutputFile",
    "Seconds",
    "TaskName",
    "require_at_least",
    "require_company",
    "require_duration",
    "require_writable",
    "shown",
]


def shown(metavar: str, default: str, text: str | None = None) -> Any:
    """What the help says of an option: its value, its default in words, and `text`, by default the docstring.

    (A docstring of several lines would keep its line breaks on every terminal: give `text` instead.)
    """
    return tyro.conf.arg(metavar=metavar, help=text, help_behavior_hint=f"(default: {default})")


TASK_HELP = (
    "A registered task, by name (CartPole) or id (superdex_gym/CartPole-v0), or your own: module:Class, or module:id if"
    " the module registers that id with Gymnasium."
)
"""How a task may be named, for the help of options that take one."""
TaskName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK", help=TASK_HELP)]
"""What `superdex.lab.apps.tasks.find_task` takes."""
CfgOption = Annotated[tuple[str, ...], shown("FIELD=VALUE [...]", "none")]
"""Fields of a task's configuration, for `superdex.lab.apps.tasks.configured_task`."""
Seconds = Annotated[float, tyro.conf.arg(metavar="S")]
"""A duration [s]."""
OutputFile = Annotated[Path | None, shown("FILE", "none")]
"""A file to write, if one is named."""

_LONGEST = 10**9
"""Thirty years [s]."""


def require_at_least(options: object, **least: int) -> None:
    """Raise UserError if an attribute of `options`, by name, is less than that; None passes."""
    for option, limit in least.items():
        value = getattr(options, option)
        if value is not None and value < limit:
            raise UserError(f"--{option} must be at least {limit}, got {value}.")


def require_company(options: Any, option: str, *dependents: str) -> None:
    """Raise UserError if one of the `dependents` was changed, which say how to do what `option` asks for, without it.

    Args:
        options: a dataclass whose fields they are.
        option: a field that is None unless it was given.
        dependents: fields with defaults.
    """
    defaults = {each.name: each.default for each in fields(options)}
    for name in dependents:
        value = getattr(options, name)
        if getattr(options, option) is None and value != defaults[name]:
            raise UserError(f"--{name} {value} says how to make the --{option}: give that, too.")


def require_duration(option: str, seconds: float) -> None:
    """Raise UserError unless `seconds` is a duration that a simulation may have."""
    if not 0 < seconds <= _LONGEST:
        raise UserError(f"--{option} must be positive and at most {_LONGEST:,}, got {seconds}.")


def require_writable(option: str, path: Path, *suffixes: str) -> None:
    """Raise UserError unless a file can be written to `path`, before time is spent on it.

    Its name must end in one of the `suffixes`, if there are any.
    """
    parent = path.absolute().parent
    if suffixes and path.suffix.lower() not in suffixes:
        *others, last = suffixes
        which = f"{', '.join(others)} or {last}" if others else last
        raise UserError(f"--{option} {path}: the name must end in {which}.")
    if path.is_dir():
        raise UserError(f"--{option} {path}: this is a directory.")
    if not parent.is_dir():
        raise UserError(f"--{option} {path}: there is no directory {path.parent}.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise UserError(f"--{option} {path}: the directory {path.parent} cannot be written to.")
