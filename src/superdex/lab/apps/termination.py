"""SIGTERM and SIGHUP as an orderly end: files that are not whole are removed on the way out.

    with orderly_termination():
        write_for_minutes()          # its `finally` and `with` blocks are run

By default these signals end a process on the spot.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["orderly_termination"]

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def orderly_termination() -> Iterator[None]:
    """A context in which SIGTERM and SIGHUP raise SystemExit, with the exit code 128 + signal that shells give.

    Further ones are ignored, so that the way out is gone to its end. A signal for which this process has another
    handler, or which it ignores (as under `nohup`), stays as it is; so do all outside of the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]

    def leave(number: int, frame: FrameType | None) -> None:
        for each in handled:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in handled:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
