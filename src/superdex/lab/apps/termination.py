"""SIGTERM and SIGHUP as an orderly end: files that are not whole are removed on the way out.

    with orderly_termination():
        write_for_minutes()          # its `finally` and `with` blocks are run

By default these signals end a process on the spot. Training has a handler of its own for them, and for
Ctrl-C: `superdex.lab.apps.train.interruption`.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["TERMINATION", "handled", "orderly_termination"]

TERMINATION = (signal.SIGTERM, signal.SIGHUP)
"""What a process is sent that is to end: by `kill` or the system, and when its terminal is closed."""

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def handled(numbers: tuple[signal.Signals, ...], handler: Handler) -> Iterator[None]:
    """A context in which the signals `numbers` call `handler`; those that were ignored, as under `nohup`, stay so.

    Signals are the main thread's affair: in another one, the context does nothing.
    """
    is_main = threading.current_thread() is threading.main_thread()
    unchanged = (signal.SIG_IGN, None)  # None: handled by another language
    chosen = [number for number in numbers if is_main and signal.getsignal(number) not in unchanged]
    previous = {number: signal.signal(number, handler) for number in chosen}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


@contextmanager
def orderly_termination() -> Iterator[None]:
    """A context in which SIGTERM and SIGHUP raise SystemExit, with the exit code 128 + signal that shells give.

    Further ones are ignored, so that the way out is gone to its end. A signal for which this process has another
    handler, or which it ignores, stays as it is; so do all outside of the main thread.
    """
    numbers = tuple(number for number in TERMINATION if signal.getsignal(number) is signal.SIG_DFL)

    def leave(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    with handled(numbers, leave):
        yield
