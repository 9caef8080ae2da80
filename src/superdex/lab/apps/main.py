"""The `superdex` command.

    superdex list                                   # the registered tasks
    superdex bench --env Ant --num_workers 1 2      # measure throughput
    superdex check my_tasks:ReacherEnv              # does a task keep its promises?
    superdex run Ant --video ant.mp4                # what does it look like?
    superdex train CartPole                         # a policy, its learning curve and its video
    superdex play runs/CartPole-20260101-120000     # how good it is
    superdex history runs/CartPole-20260101-120000  # how it came about

A subcommand is a dataclass: its fields are the options, their docstrings the
help, and `run` does the work and returns the exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import tyro

from superdex.lab.apps.bench.command import Bench
from superdex.lab.apps.check import Check
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.history import History
from superdex.lab.apps.listing import List
from superdex.lab.apps.play import Play
from superdex.lab.apps.run import Run
from superdex.lab.apps.train.command import Train

__all__ = ["main"]

Command = (
    Annotated[Bench, tyro.conf.subcommand("bench", prefix_name=False)]
    | Annotated[Check, tyro.conf.subcommand("check", prefix_name=False)]
    | Annotated[History, tyro.conf.subcommand("history", prefix_name=False)]
    | Annotated[List, tyro.conf.subcommand("list", prefix_name=False)]
    | Annotated[Play, tyro.conf.subcommand("play", prefix_name=False)]
    | Annotated[Run, tyro.conf.subcommand("run", prefix_name=False)]
    | Annotated[Train, tyro.conf.subcommand("train", prefix_name=False)]
)

_MISUSE = 2
_INTERRUPTED = 130


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line `args` (by default the process's own); returns the exit code.

    Raises:
        SystemExit: from the parser, after `--help` (code 0) or an option it cannot read (code 2).
    """
    command = tyro.cli(
        Command,
        prog="superdex",
        description="Train robot policies with large batches of MuJoCo environments.",
        args=args,
        use_underscores=True,  # in the help; on the command line, both spellings work
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
    )
    try:
        return command.run()
    except UserError as error:
        print(f"superdex: error: {error}", file=sys.stderr)
        return _MISUSE
    except KeyboardInterrupt:
        print("superdex: interrupted", file=sys.stderr)
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
