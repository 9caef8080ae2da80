"""Signals during training: the first asks for an orderly end, a second Ctrl-C stops at once."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Self

from superdex.lab.apps.termination import TERMINATION, handled

__all__ = ["NOTICE", "Interruption"]

NOTICE = "saving after this iteration; Ctrl-C again stops at once"
"""What is said once an end was requested."""

_STDOUT, _STDERR = 1, 2


class Interruption:
    """A context in which SIGINT (Ctrl-C), SIGTERM and SIGHUP (a closed terminal) set `requested`.

    Once it is set, SIGINT raises KeyboardInterrupt. The others do not: shells and supervisors may send them twice.
    Where signals are ignored, or in a thread that is not the main one, nothing changes.

    Args:
        announce: whether to say so on standard error; otherwise the caller shows it.
    """

    def __init__(self, *, announce: bool) -> None:
        self.requested = False
        """Whether the run is to end after the present iteration."""
        self._announce = announce

    def __enter__(self) -> Self:
        self._terminals = [descriptor for descriptor in (_STDOUT, _STDERR) if os.isatty(descriptor)]
        self._handled = handled((signal.SIGINT, *TERMINATION), self._handle)
        self._handled.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._handled.__exit__(None, None, None)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._let_go_of_closed_terminals()
        if self.requested:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        self.requested = True
        if self._announce:
            os.write(_STDERR, f"\n{NOTICE}\n".encode())  # print() must not be entered twice

    def _let_go_of_closed_terminals(self) -> None:
        """Send output that a terminal would have shown nowhere: to write to a closed one is an error."""
        for descriptor in self._terminals:
            if not os.isatty(descriptor):  # any more
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
