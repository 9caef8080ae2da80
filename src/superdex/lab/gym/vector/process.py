"""One worker process, seen from the caller: started, asked for its end, killed, and how it ended.

Three things are set up as it starts:

- It never sees SIGINT: Ctrl-C in a terminal is the caller's, which then ends it.
- It has a file for its last words, in which Python's `faulthandler` writes where
  it was when it crashes, or when the caller asks before it kills it (see `stuck`).
  That works from within native code and while the GIL is held.
- It ends with its parent (see `worker`).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from typing import Any, TypeVar

from superdex.lab.gym.vector.channel import Channel
from superdex.lab.gym.vector.errors import WorkerError, WorkerTimeoutError, worker_name
from superdex.lab.gym.vector.startup import EXIT_UNGUARDED, UNGUARDED_MESSAGE, WORKER_NAME
from superdex.lab.gym.vector.transport import SharedBuffer
from superdex.lab.gym.vector.worker import WHERE_SIGNAL, Job, run_worker

__all__ = ["EXIT_SECONDS", "WorkerProcess", "signals_held"]

EXIT_SECONDS = 2.0
"""How long a process that is to end is waited for before the next, harder, means."""

_WORDS_SECONDS = 0.5

_Error = TypeVar("_Error", bound=WorkerError)


class WorkerProcess:
    """A started worker and the caller's end of its channel."""

    greeted = False
    """Whether it is up, and has gone on to make its environments."""

    def __init__(self, job: Job) -> None:
        self.busy_since = time.monotonic()
        """When it was asked for what it does."""
        self.index = job.index
        self.environments = range(job.rows.start, job.rows.stop)
        self._words = SharedBuffer()
        context = get_context("spawn")
        connection, far_end = context.Pipe()
        self.channel = Channel(connection, blocking=False)
        self.process = context.Process(
            target=run_worker, args=(far_end, self._words, job), name=f"{WORKER_NAME}{job.index}", daemon=True
        )
        try:
            self.process.start()
        except BaseException:
            self.channel.close()
            self._words.close()
            raise
        finally:
            far_end.close()

    def death(self) -> RuntimeError:
        """It is gone, or closed its connection: make sure that it has ended, and say how."""
        self.process.join(EXIT_SECONDS)
        code = self.process.exitcode
        if code == EXIT_UNGUARDED:
            return RuntimeError(UNGUARDED_MESSAGE)
        if code is None:
            self.kill()
            message = f"{worker_name(self.index, self.environments)} closed its connection, and was killed."
        else:
            message = f"{worker_name(self.index, self.environments, code)}."
        return _explained(WorkerError(message, self.index, self.environments, code, self._last_words()))

    def stuck(self, timeout: float, start_seconds: float) -> WorkerTimeoutError:
        """It took longer than `timeout`, or that and `start_seconds` to be up: kill it, and say where it was."""
        self._ask_where_it_is()
        self.kill()
        name = worker_name(self.index, self.environments)
        if self.greeted:
            message = (
                f"{name} did not reply within worker_timeout = {timeout:g} s and was killed. An environment of it may"
                " be stuck, or slower than that: then allow more time."
            )
        else:
            message = (
                f"{name} did not start within {max(timeout, start_seconds):g} s and was killed. It was importing the"
                f" main module or what the factories need, which may take {start_seconds:g} s, or worker_timeout if"
                " that is longer. Import less there, or allow more time by worker_timeout."
            )
        code = self.process.exitcode
        return _explained(WorkerTimeoutError(message, self.index, self.environments, code, self._last_words()))

    def _ask_where_it_is(self) -> None:
        with suppress(ProcessLookupError, ValueError):
            os.kill(self.process.pid or 0, WHERE_SIGNAL)
        deadline = time.monotonic() + _WORDS_SECONDS  # it may be stopped, or not have come to where it listens
        before, words = "", ""
        while time.monotonic() < deadline and not (words and words == before):
            time.sleep(0.02)
            before, words = words, self._last_words()

    def _last_words(self) -> str:
        return self._words.read().decode(errors="replace")

    def kill(self) -> None:
        """End it by SIGKILL, which also ends a stopped process."""
        self.process.kill()
        self.process.join(EXIT_SECONDS)

    def dispose(self) -> None:
        """Release what the caller holds of an ended process."""
        self.channel.close()
        self._words.close()
        with suppress(ValueError):  # it survived even SIGKILL so far; the system will end it
            self.process.close()


def _explained(error: _Error) -> _Error:
    """`error` with a note that shows where the worker was, if that is known."""
    if error.worker_traceback:
        error.add_note(f"In the worker process:\n{error.worker_traceback.rstrip()}")
    return error


@contextmanager
def signals_held() -> Iterator[None]:
    """Processes started within never see SIGINT and SIGHUP; a KeyboardInterrupt of this process waits for the end.

    A terminal sends them to everyone, but what they mean is for this process to decide.
    Both need care: the mask is inherited by processes, but is the calling thread's only, and
    a native thread of NumPy may take the signal for Python. WHERE_SIGNAL, which would end
    them, they do not see until they unblock it.
    """
    handler = signal.getsignal(signal.SIGINT)
    held: list[Any] = []
    holds = threading.current_thread() is threading.main_thread() and callable(handler)
    if holds:
        signal.signal(signal.SIGINT, lambda *arguments: held.append(arguments))
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP, WHERE_SIGNAL})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
        if holds:
            signal.signal(signal.SIGINT, handler)
            if held and callable(handler):
                handler(*held[0])
