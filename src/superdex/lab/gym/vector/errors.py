"""Which environment raised an error, and what becomes of a failing worker.

A backend calls `blame(error, row)` on an exception that it lets pass. Whoever
knows where the rows lie among all environments (`Autoreset`) turns that into a
note on the exception by `environment_named`. So the caller reads

    ValueError: bad joint 3
    Raised in environment 5.
    Raised in worker 1.

An exception in a worker travels as a `RemoteError` and is raised in the caller's
process again, with its type where it can be rebuilt there, else as a
`WorkerError`. Its cause is a `WorkerError` in either case, which has the worker's
index, the environment and the worker's traceback. Whatever else goes wrong with
a worker is a `WorkerError` by itself.
"""

from __future__ import annotations

import pickle
import signal
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
from gymnasium.error import ClosedEnvironmentError

__all__ = [
    "RemoteError",
    "RestartUntoldError",
    "SharedMemoryError",
    "WorkerError",
    "WorkerTimeoutError",
    "blame",
    "closed_meanwhile",
    "environment_named",
    "name_environment",
    "worker_name",
]

_BLAMED = "_superdex_row"
_ENVIRONMENT = "_superdex_environment"


class WorkerError(RuntimeError):
    """A worker process died, or an exception in it cannot be rebuilt in the caller."""

    def __init__(
        self,
        message: str,
        worker_index: int | None,
        environments: Sequence[int],
        exit_code: int | None = None,
        worker_traceback: str = "",
    ) -> None:
        super().__init__(message)
        self.worker_index = worker_index
        """Which worker, counted from 0; None if the caller's process failed."""
        self.environments = tuple(environments)
        """Global indices: of the environment that raised, if one did, else of all that the worker has."""
        self.exit_code = exit_code
        """As `multiprocessing.Process.exitcode` (minus the signal's number); None if it was running."""
        self.worker_traceback = worker_traceback
        """Where the worker was, as far as it could tell; a killed one cannot."""

    @property
    def signal(self) -> int | None:
        """The number of the signal that killed the worker, or None."""
        return None if self.exit_code is None or self.exit_code >= 0 else -self.exit_code

    def __reduce__(self) -> tuple[Any, ...]:
        fields = self.worker_index, self.environments, self.exit_code, self.worker_traceback
        return type(self), (self.args[0], *fields), {"__notes__": getattr(self, "__notes__", [])}


class WorkerTimeoutError(WorkerError):
    """A worker did not reply within `worker_timeout` and was killed."""


class RestartUntoldError(RuntimeError):
    """A state cannot be captured: a worker was started again, and no step has told of the episodes that it ended."""


class SharedMemoryError(WorkerError):
    """There is not enough memory for what the processes share."""


def closed_meanwhile() -> ClosedEnvironmentError:
    """The error of a call that cannot go on because there are no workers any more, through no fault of theirs."""
    return ClosedEnvironmentError(
        "The vector environment was closed by another thread, or a signal handler, in the middle of this call."
    )


def worker_name(index: int, environments: Sequence[int], exit_code: int | None = None) -> str:
    """What messages call a worker, and how it ended if it did."""
    first, last = environments[0], environments[-1]
    name = f"Worker {index} (environment{f's {first} to {last}' if last > first else f' {first}'})"
    if exit_code is None:
        return name
    if exit_code >= 0:
        return f"{name} ended with exit code {exit_code}; what it printed may say why"
    try:
        label = f" ({signal.Signals(-exit_code).name})"
    except ValueError:  # a real-time signal
        label = ""
    hint = ", often a sign that memory ran out" if exit_code == -signal.SIGKILL else ""
    return f"{name} was killed by signal {-exit_code}{label}{hint}"


def blame(error: BaseException, environment: int) -> None:
    """Record that environment `environment`, counted within its backend, raised `error`."""
    setattr(error, _BLAMED, environment)


class environment_named:
    """Exceptions that pass get a note with the blamed environment; `first_environment` is the index of row 0."""

    __slots__ = ("_first_environment",)

    def __init__(self, first_environment: int) -> None:
        self._first_environment = first_environment

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            environment = error.__dict__.pop(_BLAMED, None)
            if environment is not None:
                name_environment(error, self._first_environment + environment)


def name_environment(error: BaseException, environment: int, by: str = "Raised in") -> None:
    """Note that the environment with this global index raised `error`."""
    setattr(error, _ENVIRONMENT, environment)
    error.add_note(f"{by} environment {environment}.")


@dataclass(frozen=True)
class RemoteError:
    """An exception on its way to the caller's process."""

    pickled: bytes
    """Empty if it cannot be pickled and rebuilt."""
    summary: str
    """Its type and message."""
    traceback: str
    environment: int | None
    """The global index of the environment that raised it, if one did."""

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """`error`, raised in this process, for another one."""
        environment = error.__dict__.pop(_ENVIRONMENT, None)
        summary = "".join(traceback.format_exception_only(error)).strip()
        text = "".join(traceback.format_exception(error))
        try:
            pickled = cloudpickle.dumps(error)
            pickle.loads(pickled)  # many exceptions can be pickled, but not rebuilt
        except Exception:
            pickled = b""
        return cls(pickled, summary, text, environment)

    def rebuild(self, worker_index: int, environments: Sequence[int]) -> Exception:
        """The exception to raise in the caller's process."""
        name = worker_name(worker_index, environments)
        concerned = environments if self.environment is None else (self.environment,)
        error = self._load()
        if error is None:
            message = f"{name} raised an exception that cannot be rebuilt here: {self.summary}"
            error = WorkerError(message, worker_index, concerned, worker_traceback=self.traceback)
        elif isinstance(error, WorkerError):
            error.worker_index, error.environments = worker_index, tuple(concerned)
        error.add_note(f"Raised in worker {worker_index}.")
        cause = f"{name} raised this in the worker process:\n\n{self.traceback}"
        error.__cause__ = WorkerError(cause, worker_index, concerned, worker_traceback=self.traceback)
        return error

    def _load(self) -> Exception | None:
        try:
            error = pickle.loads(self.pickled)
        except Exception:
            return None
        # An environment's SystemExit or KeyboardInterrupt must not end the caller.
        return error if isinstance(error, Exception) else None
