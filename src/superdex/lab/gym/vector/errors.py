"""Which environment raised an error, and what becomes of a failing worker.

A backend calls `blame(error, row)` on an exception that it lets pass. Whoever
knows where the rows lie among all environments (`Autoreset`) turns that into a
note on the exception by `environment_named`. So the caller reads

    ValueError: bad joint 3
    Raised in environment 5.

An exception in a worker travels as a `RemoteError` and is raised in the caller's
process again, with its type where it can be rebuilt there, else as a
`WorkerError`. The worker's traceback is its cause.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cloudpickle

__all__ = ["RemoteError", "WorkerError", "blame", "environment_named"]

_BLAMED = "_superdex_environment"


class WorkerError(RuntimeError):
    """A worker process died, or an exception in it cannot be rebuilt in the caller."""

    def __init__(
        self,
        message: str,
        worker_index: int,
        environments: Sequence[int],
        exit_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.worker_index = worker_index
        """Which worker, counted from 0."""
        self.environments = tuple(environments)
        """The global indices of its environments."""
        self.exit_code = exit_code
        """As `multiprocessing.Process.exitcode` (minus the signal's number); None while it runs."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.worker_index, self.environments, self.exit_code)


def blame(error: BaseException, environment: int) -> None:
    """Record that environment `environment`, counted within its backend, raised `error`."""
    setattr(error, _BLAMED, environment)


@contextmanager
def environment_named(first_environment: int) -> Iterator[None]:
    """Exceptions that pass get a note with the blamed environment; `first_environment` is the index of row 0."""
    try:
        yield
    except Exception as error:
        environment = error.__dict__.pop(_BLAMED, None)
        if environment is not None:
            error.add_note(f"Raised in environment {first_environment + environment}.")
        raise


class _WorkerTraceback(Exception):
    """Stands as the cause of an exception that was raised in a worker, and shows where."""

    def __str__(self) -> str:
        return f"in the worker process:\n\n{self.args[0]}"


@dataclass(frozen=True)
class RemoteError:
    """An exception on its way to the caller's process."""

    pickled: bytes
    """Empty if it cannot be pickled and rebuilt."""
    summary: str
    """Its type and message."""
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """`error`, raised in this process, for another one."""
        summary = "".join(traceback.format_exception_only(error)).strip()
        text = "".join(traceback.format_exception(error))
        try:
            pickled = cloudpickle.dumps(error)
            pickle.loads(pickled)  # many exceptions can be pickled, but not rebuilt
        except Exception:
            pickled = b""
        return cls(pickled, summary, text)

    def rebuild(self, worker_index: int, environments: Sequence[int]) -> Exception:
        """The exception to raise in the caller's process."""
        try:
            error = pickle.loads(self.pickled)
            error.add_note(f"Raised in worker {worker_index}.")
        except Exception:
            message = f"Worker {worker_index} raised an exception that cannot be rebuilt here: {self.summary}"
            error = WorkerError(message, worker_index, environments)
        error.__cause__ = _WorkerTraceback(self.traceback)
        return error
