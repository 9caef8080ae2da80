"""What a fork leaves behind: the native threads of the process that was forked.

A batch that has threads is lost in a forked child, which waits for them for ever, be it
to step it or to free it. So whoever owns one remembers the process that made it and
refuses to be used in another (`require_same_process`), and the child never frees
it (`keep_in_forks`).
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

__all__ = ["keep_in_forks", "require_same_process"]

_kept: weakref.WeakSet[Any] = weakref.WeakSet()


def keep_in_forks(thing: object) -> None:
    """Have forked children of this process keep `thing` until they end, in which it could not be freed."""
    _kept.add(thing)


def require_same_process(owner: int, what: str) -> None:
    """Raise RuntimeError unless this is the process `owner`, which made `what` (as messages call it)."""
    process = os.getpid()
    if process != owner:
        raise RuntimeError(
            f"This process is a fork ({process}) of the one that made the {what} ({owner}), whose threads and workers"
            f" it does not have. Make the {what} in this process, or start processes by spawning"
            " (multiprocessing.get_context('spawn'))."
        )


def _keep() -> None:
    for thing in list(_kept):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))  # a reference that nothing lets go of, not even the exit


os.register_at_fork(after_in_child=_keep)
