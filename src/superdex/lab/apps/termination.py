"""SIGTERM, SIGHUP and Ctrl-C as an orderly end: files that are not whole are removed on the way out.

    with orderly_termination():
        write_for_minutes()          # its `finally` and `with` blocks are run

By default the first two end a process on the spot. Training has a handler of its own for all three:
`superdex.lab.apps.train.interruption`.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["TERMINATION", "handled", "orderly_termination"]

TERMINATION = (signal.SIGTERM, signal.SIGHUP)
"""What a process is sent that is to end: by `kill` or the system, and when its terminal is closed."""

_USUAL = {signal.SIGINT: signal.default_int_handler, **dict.fromkeys(TERMINATION, signal.SIG_DFL)}
_SECONDS_TO_LEAVE = 5.0

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

    SIGINT raises KeyboardInterrupt, as it does elsewhere. An exception may be raised anywhere, and not every place
    lets it pass: `ctypes` makes an ArgumentError of it, and a `__del__` is only reported. So an
    error that follows a signal leaves this context as that signal's exception; SystemExit does so even where
    nothing follows it.

    Further SIGTERMs and SIGHUPs are ignored for some seconds, so that the way out is gone to its end. A signal for
    which this process has another handler, or which it ignores, stays as it is; so do all outside of the main thread.
    """
    ending: BaseException | None = None
    since = -math.inf

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal ending, since
        if number == signal.SIGINT:
            ending = KeyboardInterrupt()
        elif time.monotonic() - since < _SECONDS_TO_LEAVE:
            return
        else:
            ending, since = SystemExit(128 + number), time.monotonic()
        raise ending

    numbers = tuple(number for number, usual in _USUAL.items() if signal.getsignal(number) is usual)
    with handled(numbers, leave):
        try:
            yield
        except Exception as error:
            if ending is not None:
                raise ending from error
            raise
        if isinstance(ending, SystemExit):
            raise ending
