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

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.termination import orderly_termination

__all__ = ["main"]

_MISUSE = 2
_INTERRUPTED = 130


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line `args` (by default the process's own); returns the exit code.

    Raises:
        SystemExit: from the parser, after `--help` (code 0) or an option it cannot read (code 2). Or when SIGTERM
            or SIGHUP ends the command (`orderly_termination`).
    """
    try:
        from superdex.lab.apps.commands import parse  # takes a second, in which Ctrl-C is to be answered, too

        command = parse(args)
        with orderly_termination():
            return command.run()
    except UserError as error:
        print(f"superdex: error: {error}", file=sys.stderr)
        return _MISUSE
    except KeyboardInterrupt as interrupt:
        print("\n".join(["superdex: interrupted", *getattr(interrupt, "__notes__", ())]), file=sys.stderr)
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
