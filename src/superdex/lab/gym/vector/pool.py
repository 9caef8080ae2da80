"""The worker processes of a vector environment, seen from the caller.

A `WorkerPool` starts them all at once, sends requests, collects replies, and
ends them. It knows nothing of what requests mean (see `worker`). No wait in it
is blind: a worker that dies is noticed wherever the caller waits for it.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from superdex.lab.gym.vector.errors import RemoteError, WorkerError
from superdex.lab.gym.vector.startup import EXIT_UNGUARDED, UNGUARDED_MESSAGE, WORKER_NAME
from superdex.lab.gym.vector.worker import CLOSE, ERROR, Job, run_worker

__all__ = ["WorkerPool"]

_LIVENESS_SECONDS = 1.0
_EXIT_SECONDS = 2.0


@dataclass(frozen=True, eq=False)
class _Handle:
    """One worker process."""

    index: int
    environments: range
    process: SpawnProcess
    connection: Connection


class WorkerPool:
    """Started worker processes; one request to each of them at a time."""

    settled = False
    """Whether every request sent has been answered, be it by an exception."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._owner = os.getpid()
        self._workers: list[_Handle] = []
        self._poller = select.poll()
        self._by_connection: dict[int, _Handle] = {}
        self._by_sentinel: dict[int, _Handle] = {}
        try:
            self._start(jobs)
        except BaseException:
            self.shutdown(grace=0.0)
            raise

    def _start(self, jobs: Sequence[Job]) -> None:
        context = get_context("spawn")
        resource_tracker.ensure_running()  # it unblocks SIGINT, so not below
        with _sigint_blocked():
            for job in jobs:
                connection, far_end = context.Pipe()
                process = context.Process(
                    target=run_worker, args=(far_end, job), name=f"{WORKER_NAME}{job.index}", daemon=True
                )
                try:
                    process.start()
                except BaseException:
                    connection.close()
                    raise
                finally:
                    far_end.close()
                worker = _Handle(job.index, range(job.rows.start, job.rows.stop), process, connection)
                self._workers.append(worker)
                self._by_connection[connection.fileno()] = worker
                self._by_sentinel[process.sentinel] = worker
        for fd in (*self._by_connection, *self._by_sentinel):
            self._poller.register(fd, select.POLLIN)

    def exchange(self, requests: Sequence[bytes], fail_fast: bool = True) -> list[bytes]:
        """Send each worker its request and return each one's reply, without its first byte.

        The exception in an ERROR reply is raised as soon as it comes, or when all
        workers have replied (not `fail_fast`); `settled` is True after the latter.
        """
        self.settled = False
        for worker, request in zip(self._workers, requests, strict=True):
            try:
                worker.connection.send_bytes(request)
            except OSError:
                raise self._death(worker) from None
        return self.collect(fail_fast)

    def collect(self, fail_fast: bool = True) -> list[bytes]:
        """One reply of each worker; see `exchange`."""
        replies: dict[int, bytes] = {}
        errors: dict[int, Exception] = {}
        while len(replies) < len(self._workers):
            for worker in self._ready_workers(replies):
                reply = self._receive(worker)
                replies[worker.index] = reply[1:]
                if reply[:1] == ERROR:
                    remote: RemoteError = pickle.loads(reply[1:])
                    errors[worker.index] = remote.rebuild(worker.index, worker.environments)
                    if fail_fast:
                        raise errors[worker.index]
        self.settled = True
        if errors:
            raise errors[min(errors)]
        return [replies[worker.index] for worker in self._workers]

    def _ready_workers(self, replies: dict[int, bytes]) -> list[_Handle]:
        """Workers with a reply to read, perhaps none; raises if a worker has died."""
        events = self._poller.poll(_LIVENESS_SECONDS * 1000)
        ready = []
        for fd, _ in events:
            worker = self._by_connection.get(fd)
            if worker is None:
                raise self._death(self._by_sentinel[fd])
            if worker.index in replies:  # nothing more is due: its end was closed
                raise self._death(worker)
            ready.append(worker)
        if not events:  # a process that an environment forked may hold a dead worker's pipes open
            for worker in self._workers:
                if not worker.process.is_alive():
                    raise self._death(worker)
        return ready

    def _receive(self, worker: _Handle) -> bytes:
        try:
            return worker.connection.recv_bytes()
        except (EOFError, OSError):
            raise self._death(worker) from None

    def _death(self, worker: _Handle) -> RuntimeError:
        """The error for a worker that is gone."""
        worker.process.join(_EXIT_SECONDS)
        code = worker.process.exitcode
        if code == EXIT_UNGUARDED:
            return RuntimeError(UNGUARDED_MESSAGE)
        if code is None:
            cause = "closed its connection"
        elif code >= 0:
            cause = f"ended with exit code {code}; what it printed may say why"
        else:
            cause = f"was killed by signal {-code} ({signal.Signals(-code).name})"
            if code == -signal.SIGKILL:
                cause += ", often a sign that memory ran out"
        first, last = worker.environments[0], worker.environments[-1]
        message = f"Worker {worker.index} (environments {first} to {last}) {cause}."
        return WorkerError(message, worker.index, worker.environments, code)

    def shutdown(self, grace: float) -> Exception | None:
        """End all workers within about `grace` seconds, by force if need be; harmless when repeated.

        Returns the first exception that an environment raised as it was closed.
        """
        if os.getpid() != self._owner:
            return None  # a forked copy of the caller: the workers are not its own
        workers, self._workers = self._workers, []
        deadline = time.monotonic() + grace
        for worker in workers:
            _send_close(worker.connection)
        errors = [_await_end(worker, deadline) for worker in workers]
        for stop in (SpawnProcess.terminate, SpawnProcess.kill):
            remaining = [worker.process for worker in workers if worker.process.is_alive()]
            for process in remaining:
                stop(process)
            for process in remaining:
                process.join(_EXIT_SECONDS)
        for worker in workers:
            worker.connection.close()
            with suppress(ValueError):  # it survived even SIGKILL so far; the system will end it
                worker.process.close()
        return next((error for error in errors if error is not None), None)


def _send_close(connection: Connection) -> None:
    """Send CLOSE, unless the worker is gone or stuck with a full pipe, for which nothing waits here."""
    with suppress(OSError):
        os.set_blocking(connection.fileno(), False)
        connection.send_bytes(CLOSE)
        os.set_blocking(connection.fileno(), True)


def _await_end(worker: _Handle, deadline: float) -> Exception | None:
    """Read what the worker still sends until it ends; the error in its last reply, if there is one."""
    last = b""
    with suppress(EOFError, OSError):
        while worker.connection.poll(max(0.0, deadline - time.monotonic())):
            last = worker.connection.recv_bytes()
    worker.process.join(max(0.0, deadline - time.monotonic()))
    if last[:1] != ERROR:
        return None
    remote: RemoteError = pickle.loads(last[1:])
    return remote.rebuild(worker.index, worker.environments)


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Processes started within never see SIGINT: Ctrl-C is the caller's, which then ends them."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
