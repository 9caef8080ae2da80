"""The worker processes of a vector environment, seen from the caller.

A `WorkerPool` starts them all at once, sends requests, collects replies, and
ends them. It knows nothing of what requests mean (see `worker`). No wait in it
is blind: a worker that dies is noticed wherever the caller waits for it, and
with a `timeout` one that does not reply is killed.

`interrupt` is for another thread: it makes the one that waits leave, so that the
workers can be ended without two threads reading what they say.

A death is an error, unless `max_restarts` allows that worker another start: then
the worker has no reply (None), and `restart` is what the caller does next.
"""

from __future__ import annotations

import os
import pickle
import select
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing import Pipe, resource_tracker
from multiprocessing.context import SpawnProcess

from superdex.lab.gym.vector.errors import RemoteError, closed_meanwhile
from superdex.lab.gym.vector.process import EXIT_SECONDS, WorkerProcess, signals_held
from superdex.lab.gym.vector.requests import CLOSE, ERROR
from superdex.lab.gym.vector.worker import GREETING, Job

__all__ = ["WorkerPool"]

_LIVENESS_SECONDS = 1.0
_START_SECONDS = 60.0
"""Within `timeout` or this, whichever is longer, a process must be up; the `timeout` counts from then."""


class WorkerPool:
    """Started worker processes; one request to each of them at a time."""

    settled = False
    """Whether every request sent has been answered, be it by an exception or by a death that was allowed."""
    closed = False
    """Whether the workers are to end, or have ended."""
    max_restarts = 0
    """How often each worker may be started again."""

    def __init__(self, jobs: Sequence[Job], timeout: float | None = None) -> None:
        """Start one worker per job. `timeout`: seconds in which each request must be answered."""
        self._owner = os.getpid()
        self._jobs = jobs
        self._timeout = timeout
        self._workers: list[WorkerProcess] = []
        self._dead: set[int] = set()
        self._poller = select.poll()
        self._bell_heard, self._bell = Pipe(duplex=False)
        self._poller.register(self._bell_heard.fileno(), select.POLLIN)
        self._by_channel: dict[int, WorkerProcess] = {}
        self._by_sentinel: dict[int, WorkerProcess] = {}
        self.restarts = [0] * len(jobs)
        """How often each worker was started again."""
        try:
            resource_tracker.ensure_running()  # it unblocks SIGINT, so not below
            with signals_held():
                for job in jobs:
                    self._workers.append(WorkerProcess(job))
                    self._watch(self._workers[-1])
        except BaseException:
            self.shutdown(grace=0.0)
            raise

    def restart(self, index: int) -> None:
        """Start a dead worker again; `greet` it next."""
        self._require_open()
        self.restarts[index] += 1
        with signals_held():
            self._workers[index] = WorkerProcess(self._jobs[index])
            self._watch(self._workers[index])
            self._dead.discard(index)

    def greet(self, indices: Iterable[int] | None = None) -> list[bytes | None]:
        """What newly started workers say once their environments are made; as `exchange`."""
        self._require_open()
        waiting = set(range(len(self._workers)) if indices is None else indices)
        return self._collect(waiting - self._dead, fail_fast=True)

    def exchange(self, requests: Sequence[bytes | None], fail_fast: bool = True) -> list[bytes | None]:
        """Send each worker its request and return each one's reply, without its first byte.

        A request of None is no request and has no reply. The exception in an ERROR
        reply is raised as soon as it comes, or when all workers have replied (not
        `fail_fast`); `settled` is True after the latter.
        """
        self._require_open()
        return self._collect(self._send(requests), fail_fast)

    def _send(self, requests: Sequence[bytes | None]) -> set[int]:
        """Send what can be sent at once; the workers that will reply."""
        self.settled = False
        waiting = {index for index, request in enumerate(requests) if request is not None} - self._dead
        now = time.monotonic()
        for index in sorted(waiting):
            worker = self._workers[index]
            worker.busy_since = now
            try:
                if not worker.channel.send(requests[index] or b""):
                    self._poller.modify(worker.channel.fileno(), select.POLLIN | select.POLLOUT)
            except OSError:
                self._lose(worker, worker.death())
        return waiting - self._dead

    def _collect(self, waiting: set[int], fail_fast: bool) -> list[bytes | None]:
        """One reply of each worker in `waiting`, unless it dies; see `exchange`."""
        self.settled = False
        replies: list[bytes | None] = [None] * len(self._workers)
        errors: dict[int, Exception] = {}
        while waiting:
            for worker in self._ready_workers(waiting):
                reply = self._receive(worker)
                if reply is None:
                    continue
                waiting.discard(worker.index)
                replies[worker.index] = reply[1:]
                if reply[:1] == ERROR:
                    remote: RemoteError = pickle.loads(reply[1:])
                    errors[worker.index] = remote.rebuild(worker.index, worker.environments)
                    if fail_fast:
                        raise errors[worker.index]
            waiting -= self._dead
        self.settled = True
        if errors:
            raise errors[min(errors)]
        return replies

    def _ready_workers(self, waiting: set[int]) -> list[WorkerProcess]:
        """Those of `waiting` with something to read, perhaps none. Notices deaths, and who takes too long."""
        events = self._poller.poll(1000 * min([_LIVENESS_SECONDS, *self._remaining(waiting).values()]))
        self._require_open()
        ready = []
        for fd, event in events:
            worker = self._by_channel.get(fd)
            if worker is None:
                if fd in self._by_sentinel:
                    self._lose(self._by_sentinel[fd], self._by_sentinel[fd].death())
            elif event == select.POLLOUT:
                self._send_rest(worker)
            elif worker.index in waiting:
                ready.append(worker)
            else:  # nothing is due: it closed its end
                self._lose(worker, worker.death())
        if not events:  # a process that an environment forked may hold a dead worker's pipes open
            for worker in self._workers:
                if worker.index not in self._dead and not worker.process.is_alive():
                    self._lose(worker, worker.death())
            for index, seconds in self._remaining(waiting - self._dead).items():
                if seconds <= 0.0:
                    self._lose(self._workers[index], self._workers[index].stuck(self._timeout or 0.0, _START_SECONDS))
        return [worker for worker in ready if worker.index not in self._dead]

    def _remaining(self, waiting: set[int]) -> dict[int, float]:
        """Within how many seconds each of `waiting` must have replied, if there is a limit; at least 0."""
        if self._timeout is None:
            return {}
        now, start = time.monotonic(), max(self._timeout, _START_SECONDS)
        limits = {index: self._timeout if self._workers[index].greeted else start for index in waiting}
        return {i: max(0.0, self._workers[i].busy_since + limit - now) for i, limit in limits.items()}

    def _receive(self, worker: WorkerProcess) -> bytes | None:
        try:
            message = worker.channel.receive()
            if message == GREETING:
                worker.greeted, worker.busy_since = True, time.monotonic()
                message = worker.channel.receive()
        except (EOFError, OSError):
            self._lose(worker, worker.death())
            return None
        return message

    def _send_rest(self, worker: WorkerProcess) -> None:
        try:
            if worker.channel.flush():
                self._poller.modify(worker.channel.fileno(), select.POLLIN)
        except OSError:
            self._lose(worker, worker.death())

    def _watch(self, worker: WorkerProcess) -> None:
        self._by_channel[worker.channel.fileno()] = worker
        self._by_sentinel[worker.process.sentinel] = worker
        self._poller.register(worker.channel.fileno(), select.POLLIN)
        self._poller.register(worker.process.sentinel, select.POLLIN)

    def _lose(self, worker: WorkerProcess, error: RuntimeError) -> None:
        """Count `worker` as dead, or raise `error` if it may not be started again."""
        if self.restarts[worker.index] >= self.max_restarts or worker.process.exitcode is None:
            if self.max_restarts:
                error.add_note(
                    f"It was restarted {self.restarts[worker.index]} times; max_worker_restarts = {self.max_restarts}."
                )
            raise error
        for fd, known in ((worker.channel.fileno(), self._by_channel), (worker.process.sentinel, self._by_sentinel)):
            self._poller.unregister(fd)
            del known[fd]
        worker.dispose()
        self._dead.add(worker.index)

    def _require_open(self) -> None:
        if self.closed:
            raise closed_meanwhile()

    def interrupt(self) -> None:
        """Have a thread that waits for workers raise ClosedEnvironmentError, and whoever comes after it."""
        if os.getpid() == self._owner and not self.closed:
            self.closed = True
            self._bell.send_bytes(b"!")

    def shutdown(self, grace: float) -> Exception | None:
        """End all workers within about `grace` seconds, by force if need be; harmless when repeated.

        Returns the first exception that an environment raised as it was closed.
        """
        if os.getpid() != self._owner:
            return None  # a forked copy of the caller: the workers are not its own
        self.interrupt()
        workers = [worker for worker in self._workers if worker.index not in self._dead]
        self._workers = []
        deadline = time.monotonic() + grace
        try:
            for worker in workers:
                with suppress(OSError):  # it is gone
                    worker.channel.send(CLOSE)
            errors = [_await_end(worker, deadline) for worker in workers]
        finally:  # an interrupt may have cut the wait short
            for stop in (SpawnProcess.terminate, SpawnProcess.kill):
                remaining = [worker.process for worker in workers if worker.process.is_alive()]
                for process in remaining:
                    stop(process)
                for process in remaining:
                    process.join(EXIT_SECONDS)
            for worker in workers:
                worker.dispose()
            self._bell.close()
            self._bell_heard.close()
        return next((error for error in errors if error is not None), None)


def _await_end(worker: WorkerProcess, deadline: float) -> Exception | None:
    """Read what the worker still sends until it ends; the error in its last reply, if there is one."""
    last = b""
    poller = select.poll()
    poller.register(worker.channel.fileno(), select.POLLIN)
    with suppress(EOFError, OSError):
        while poller.poll(1000 * max(0.0, deadline - time.monotonic())):
            last = worker.channel.receive() or last
    worker.process.join(max(0.0, deadline - time.monotonic()))
    if last[:1] != ERROR:
        return None
    remote: RemoteError = pickle.loads(last[1:])
    return remote.rebuild(worker.index, worker.environments)
