"""Ctrl-C during training: the first asks for an orderly end, the second stops at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Self

__all__ = ["Interruption"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2
_NOTE = "\nsaving after this iteration; Ctrl-C again stops at once\n"


class Interruption:
    """A context in which SIGINT (Ctrl-C) and SIGTERM set `requested`; a second one raises KeyboardInterrupt.

    Signals are the main thread's affair: in another one, the context does nothing.

    Args:
        announce: whether to say so on standard error; otherwise the caller shows it.
    """

    def __init__(self, *, announce: bool) -> None:
        self.requested = False
        """Whether the run is to end after the present iteration."""
        self._announce = announce

    def __enter__(self) -> Self:
        numbers = _SIGNALS if threading.current_thread() is threading.main_thread() else ()
        self._previous = {number: signal.signal(number, self._handle) for number in numbers}
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        if self._announce:
            os.write(_STDERR, _NOTE.encode())  # print() must not be entered twice
