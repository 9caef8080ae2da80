"""Runs a function in a new process, and nothing else in it.

    result = in_fresh_process(measure_startup, split, plan)

Unlike a `multiprocessing` child, the process has imported neither this one's main
module nor the command line's libraries, and so have its own worker processes:
what is measured is what a training script would see.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["MeasurementError", "in_fresh_process", "serve"]

P = ParamSpec("P")
T = TypeVar("T")

_LIMIT_SECONDS = 2 * 3600.0
"""Many times what any measurement takes: a process that takes longer hangs."""

# Ctrl-C ends it without a traceback: the caller gets the signal as well, and says so.
_PROGRAM = f"""
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
from {__name__} import serve
serve()
"""


class MeasurementError(RuntimeError):
    """A measurement failed; what its process printed says why."""


def in_fresh_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`function(*args, **kwargs)`, computed by a new Python process that ends with it.

    Args:
        function: a function of a module; it, the arguments and the result are pickled.
        *args: its arguments.
        **kwargs: its arguments by name.

    Raises:
        MeasurementError: if the function raised; the traceback is on standard error. Or if it took more than
            two hours; its process was killed.
    """
    job = pickle.dumps((function, args, kwargs))
    command, what = [sys.executable, "-c", _PROGRAM], f"{function.__name__}({', '.join(map(str, args))})"
    try:
        done = subprocess.run(command, input=job, stdout=subprocess.PIPE, check=False, timeout=_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        raise MeasurementError(f"{what} did not end within {_LIMIT_SECONDS:g} s, and was killed.") from None
    if done.returncode != 0:
        raise MeasurementError(f"{what} failed with exit code {done.returncode}.")
    return pickle.loads(done.stdout)


def serve() -> None:
    """The new process: a job from standard input, its result to standard output."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not mix with the result
        function, args, kwargs = pickle.load(sys.stdin.buffer)
        out.write(pickle.dumps(function(*args, **kwargs)))
