"""The subcommands of `superdex`, and the parser of its command line.

A subcommand is a dataclass: its fields are the options, their docstrings the
help, and `run` does the work and returns the exit code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import tyro

from superdex.lab.apps.bench.command import Bench
from superdex.lab.apps.check import Check
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

    Args:
        args: the command line; by default the process's own.

    Raises:
        SystemExit: after `--help` (code 0) or an option that cannot be read (code 2).
    """
    return tyro.cli(
        Command,
        prog="superdex",
        description="Train robot policies with large batches of MuJoCo environments.",
        args=args,
        use_underscores=True,  # in the help; on the command line, both spellings work
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
    )
