"""The `superdex` command.

    superdex list                                   # the registered tasks
    superdex bench --env Ant --num_workers 1 2      # measure throughput
    superdex check my_tasks:ReacherEnv              # does a task keep its promises?
    superdex run Ant --video ant.mp4                # what does it look like?
    superdex train CartPole                         # a policy, its learning curve and its video
    superdex play runs/CartPole-20260101-120000     # how good it is
    superdex history runs/CartPole-20260101-120000  # how it came about

The subcommands are in `superdex.lab.apps.commands`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from superdex.lab.apps.errors import told
from superdex.lab.apps.termination import orderly_termination

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line `args` (by default the process's own); returns the exit code.

    Raises:
        SystemExit: from the parser, after `--help` (code 0) or an option it cannot read (code 2). Or when SIGTERM
            or SIGHUP ends the command (`orderly_termination`).
    """
    return told(lambda: _run(args))


def _run(args: Sequence[str] | None) -> int:
    from superdex.lab.apps.commands import parse  # takes a second, in which Ctrl-C is to be answered, too

    command = parse(args)
    with orderly_termination():
        return command.run()


if __name__ == "__main__":
    sys.exit(main())
