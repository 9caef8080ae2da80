"""Options that several subcommands have: one name, one look in the help and one range for one thing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import tyro

from superdex.lab.apps.errors import UserError

__all__ = ["OutputFile", "Seconds", "TaskName", "require_at_least", "require_duration", "require_writable"]

TaskName = Annotated[
    str,
    tyro.conf.Positional,
    tyro.conf.arg(
        metavar="TASK",
        help="A registered task, by name (CartPole) or id (superdex_gym/CartPole-v0), or your own: module:Class, or"
        " module:id if the module registers that id with Gymnasium.",
    ),
]
"""What `superdex.lab.apps.tasks.find_task` takes."""
Seconds = Annotated[float, tyro.conf.arg(metavar="S")]
"""A duration [s]."""
OutputFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: none)")]
"""A file to write, if one is named."""

_LONGEST = 10**9
"""Thirty years [s]."""


def require_at_least(options: object, **least: int) -> None:
    """Raise UserError if an attribute of `options`, by name, is less than that; None passes."""
    for option, limit in least.items():
        value = getattr(options, option)
        if value is not None and value < limit:
            raise UserError(f"--{option} must be at least {limit}, got {value}.")


def require_duration(option: str, seconds: float) -> None:
    """Raise UserError unless `seconds` is a duration that a simulation may have."""
    if not 0 < seconds <= _LONGEST:
        raise UserError(f"--{option} must be positive and at most {_LONGEST:,}, got {seconds}.")


def require_writable(option: str, path: Path, suffix: str) -> None:
    """Raise UserError unless a file that ends in `suffix` can be written to `path`, before time is spent on it."""
    parent = path.absolute().parent
    if path.suffix.lower() != suffix:
        raise UserError(f"--{option} {path}: the name must end in {suffix}.")
    if path.is_dir():
        raise UserError(f"--{option} {path}: this is a directory.")
    if not parent.is_dir():
        raise UserError(f"--{option} {path}: there is no directory {path.parent}.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise UserError(f"--{option} {path}: the directory {path.parent} cannot be written to.")
