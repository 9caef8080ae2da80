"""What a command raises when the person at the keyboard can mend it, and how it is told."""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["UserError", "told"]

_MISUSE = 2
_INTERRUPTED = 130


class UserError(Exception):
    """One line that says what is wrong and what to do; a command prints it and exits with code 2."""


def told(command: Callable[[], int]) -> int:
    """Run a command, and say on standard error if it was used wrongly, or interrupted; returns the exit code."""
    try:
        return command()
    except UserError as error:
        print(f"superdex: error: {error}", file=sys.stderr)
        return _MISUSE
    except KeyboardInterrupt as interrupt:
        print("\n".join(["superdex: interrupted", *getattr(interrupt, "__notes__", ())]), file=sys.stderr)
        return _INTERRUPTED
