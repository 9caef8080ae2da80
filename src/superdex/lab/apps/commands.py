"""The subcommands of `superdex`, and the parser of its command line.

A subcommand is a dataclass: its fields are the options, their docstrings the
help, and `run` does the work and returns the exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from itertools import chain
from typing import Annotated, get_args, get_origin, get_type_hints

import tyro

from superdex.lab.apps.bench.command import Bench
from superdex.lab.apps.check import Check
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.history import History
from superdex.lab.apps.listing import List
from superdex.lab.apps.play import Play
from superdex.lab.apps.run import Run
from superdex.lab.apps.train.command import Train

__all__ = ["Command", "parse"]

Command = (
    Annotated[Bench, tyro.conf.subcommand("bench", prefix_name=False)]
    | Annotated[Check, tyro.conf.subcommand("check", prefix_name=False)]
    | Annotated[History, tyro.conf.subcommand("history", prefix_name=False)]
    | Annotated[List, tyro.conf.subcommand("list", prefix_name=False)]
    | Annotated[Play, tyro.conf.subcommand("play", prefix_name=False)]
    | Annotated[Run, tyro.conf.subcommand("run", prefix_name=False)]
    | Annotated[Train, tyro.conf.subcommand("train", prefix_name=False)]
)


def parse(args: Sequence[str] | None = None) -> Command:
    """The subcommand that `args` name, with its options.

    A list may be given in parts: --cfg a=1 --cfg b=2 is --cfg a=1 b=2.

    Args:
        args: the command line; by default the process's own.

    Raises:
        UserError: if a flag that takes one value, or none, is given twice.
        SystemExit: after `--help` (code 0) or an option that cannot be read (code 2).
    """
    return tyro.cli(
        Command,
        prog="superdex",
        description="Train robot policies with large batches of MuJoCo environments.",
        args=_gathered(sys.argv[1:] if args is None else args),
        use_underscores=True,  # in the help; on the command line, both spellings work
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
    )


def _gathered(args: Sequence[str]) -> list[str]:
    """The command line with each list in one place, at its first flag: the parser would keep the last part alone."""
    commands: dict[str, type] = {each.__name__.lower(): each for each, *_ in map(get_args, get_args(Command))}
    if not args or args[0] not in commands:
        return list(args)
    lists = set(_lists(commands[args[0]]))
    end = args.index("--") if "--" in args else len(args)  # what comes after it are no flags
    part: list[str] = []
    parts = {"": part}  # what each flag begins, by its name
    for word in args[:end]:
        flag, equals, value = word.partition("=")
        name = flag[2:].replace("-", "_")
        if not flag.startswith("--"):
            part.append(word)
        elif name not in parts:
            part = parts[name] = [word]
        elif name in lists:
            part = parts[name]
            part += [value] if equals else []
        elif name != "help":
            raise UserError(f"--{name} is given twice: give it once.")
    return [*chain.from_iterable(parts.values()), *args[end:]]


def _lists(command: type) -> Iterator[str]:
    """The names of the options that take several values."""
    for name, hint in get_type_hints(command).items():
        if isinstance(hint, type) and is_dataclass(hint):
            yield from _lists(hint)
        elif any(tuple in (kind, get_origin(kind)) for kind in (hint, *get_args(hint))):
            yield name
