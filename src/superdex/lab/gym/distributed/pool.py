"""The actors of a vector environment, seen from the caller.

What `superdex.lab.gym.vector.pool.WorkerPool` is for processes of this machine,
with the same promise: no wait is blind. Ray tells of actors that died, and of nodes
that did; an actor that cannot be reached counts as dead, and with a `timeout` so
does one that does not reply in time.

Actors are made with `max_restarts=0`: Ray's own restart would bring back an actor
without environments, which answers as if nothing had happened. Here a death is seen,
and a successor is brought to where its predecessor was (`superdex.lab.gym.vector.recovery`).
"""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from superdex.lab.gym.distributed.actor import ActorJob, EnvActor, Greeting, Reply, versions
from superdex.lab.gym.distributed.connection import Connection
from superdex.lab.gym.distributed.freight import Freight
from superdex.lab.gym.distributed.placement import Placement, PlacementError
from superdex.lab.gym.vector.errors import RemoteError, WorkerError, WorkerTimeoutError, closed_meanwhile, worker_name
from superdex.lab.gym.vector.requests import CLOSE, COLLECT, ERROR

__all__ = ["ActorPool"]

_LIVENESS_SECONDS = 1.0
_START_SECONDS = 120.0
"""Within this a process must be up once it has a place: it imports our modules, from a disk that may be far away."""
_FETCH_SECONDS = 60.0
"""Within this a reply must be read that is here already."""
_COLOURS = re.compile(r"\x1b\[\d*m")

Waiting = dict[Any, int]
"""Workers by the object that will be their reply."""


class ActorPool:
    """Started actors; one request to each of them at a time."""

    settled = False
    """Whether every request sent has been answered, be it by an exception or by a death that was allowed."""
    max_restarts = 0
    """How often each worker may be started again."""
    freight: Freight | None = None
    """What goes with requests and replies, once the environments are known."""
    closed = False
    """Whether the actors are to end, or have ended."""
    _ended = False

    def __init__(
        self, jobs: Sequence[ActorJob], connection: Connection, placement: Placement, timeout: float | None = None
    ) -> None:
        """Start one actor per job. `timeout`: seconds in which each request must be answered."""
        self.connection = connection
        """Without which there are no actors."""
        self._jobs = jobs
        self._placement = placement
        self._timeout = timeout
        self._dead: set[int] = set()
        self.restarts = [0] * len(jobs)
        """How often each worker was started again."""
        self.nodes = [""] * len(jobs)
        """The id of the node that each worker is on."""
        self._actors = [self._start(index) for index in range(len(jobs))]

    def _start(self, index: int) -> Any:
        strategy, num_cpus = self._placement.strategy(index), self._placement.num_cpus
        options = {"num_cpus": num_cpus, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": strategy}
        return ray.remote(EnvActor).options(**options).remote()  # type: ignore[attr-defined]

    def restart(self, index: int) -> None:
        """Start a dead worker again; `greet` it next."""
        self.restarts[index] += 1
        try:
            self._placement.require_room(index, self._environments(index))
        except PlacementError:
            self._require_open()  # closing removes the reservation
            raise
        self._require_open()
        self._actors[index] = self._start(index)
        self._dead.discard(index)

    def greet(self, indices: Iterable[int] | None = None) -> list[bytes | None]:
        """What newly started workers say once their environments are made; as `exchange`."""
        waiting = set(range(len(self._actors)) if indices is None else indices) - self._dead
        self.settled = False
        greetings = {self._actors[index].greet.remote(): index for index in waiting}
        answers = self._gather(greetings, _START_SECONDS, self._not_up)
        here = versions()
        for index, greeting in answers.items():
            self._check_versions(index, greeting, here)
            self.nodes[index] = greeting.node_id
        started = {self._actors[index].start.remote(self._jobs[index]): index for index in waiting - self._dead}
        return self._collect(started, self._timeout, fail_fast=True)

    def exchange(self, requests: Sequence[bytes | None], fail_fast: bool = True) -> list[bytes | None]:
        """Send each worker its request and return each one's reply, without its first byte.

        A request of None is no request and has no reply. What else came with a reply has
        been put away by `freight`. The exception in an ERROR reply is raised as soon as it
        is seen, or when all workers have replied (not `fail_fast`); `settled` is True after the latter.
        """
        self._require_connection()
        self.settled = False
        waiting: Waiting = {}
        limit = self._timeout
        for index, request in enumerate(requests):
            if request is not None and index not in self._dead:
                cargo = None if self.freight is None else self.freight.outgoing(index, request)
                waiting[self._actors[index].handle.remote(request, cargo)] = index
                if request[:1] == COLLECT and self._timeout is not None and self.freight is not None:
                    limit = self._timeout * self.freight.num_steps
        return self._collect(waiting, limit, fail_fast)

    def _collect(self, waiting: Waiting, limit: float | None, fail_fast: bool) -> list[bytes | None]:
        replies: list[bytes | None] = [None] * len(self._actors)
        errors: dict[int, Exception] = {}

        def take(index: int, reply: Reply) -> None:
            message, cargo = reply
            replies[index] = message[1:]
            if message[:1] == ERROR:
                remote: RemoteError = pickle.loads(message[1:])
                errors[index] = remote.rebuild(index, self._environments(index))
                if fail_fast:
                    raise errors[index]
            elif self.freight is not None:
                self.freight.incoming(index, cargo)

        self._gather(waiting, limit, self._stuck, take)
        self.settled = True
        if errors:
            raise errors[min(errors)]
        return replies

    def _gather(
        self,
        waiting: Waiting,
        limit: float | None,
        late: Callable[[int], WorkerError],
        take: Callable[[int, Any], None] | None = None,
    ) -> dict[int, Any]:
        """What the workers of `waiting` return, but for those that die; each is also given to `take` as it comes.

        After `limit` seconds, those that have not replied are killed; `late` makes the error.
        """
        waiting = dict(waiting)
        answers: dict[int, Any] = {}
        begin = time.monotonic()
        while waiting:
            left = float("inf") if limit is None else begin + limit - time.monotonic()
            patience = max(0.0, min(_LIVENESS_SECONDS, left))
            ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=patience)
            for reference in ready:
                index = waiting.pop(reference)
                try:
                    answers[index] = ray.get(reference, timeout=_FETCH_SECONDS)
                except RayTaskError as error:  # not of an environment: those are replies
                    raise self._broken(index, error) from error
                except RayError as error:
                    self._lose(index, self._death(index, error))
                    continue
                if take is not None:
                    take(index, answers[index])
            if not ready and left <= 0.0:
                for index in waiting.values():
                    self._lose(index, late(index))
                break
            self._require_connection()
        return answers

    def _environments(self, index: int) -> range:
        return range(self._jobs[index].rows.start, self._jobs[index].rows.stop)

    def _lose(self, index: int, error: WorkerError) -> None:
        """Count a worker as dead, or raise `error` if it may not be started again."""
        self._kill(index)  # it may only be out of reach
        self._require_open()
        if self.restarts[index] >= self.max_restarts:
            if self.max_restarts:
                error.add_note(
                    f"It was restarted {self.restarts[index]} times; max_worker_restarts = {self.max_restarts}."
                )
            raise error
        self._dead.add(index)

    def _death(self, index: int, error: RayError) -> WorkerError:
        name = worker_name(index, self._environments(index))
        place = f" on node {self.nodes[index]}" if self.nodes[index] else ""
        message = f"{name} died{place}. Ray says: {' '.join(_COLOURS.sub('', str(error)).split())}"
        return WorkerError(message, index, self._environments(index))

    def _broken(self, index: int, error: RayTaskError) -> WorkerError:
        message = f"{worker_name(index, self._environments(index))} could not take a request or give a reply: {error}"
        return WorkerError(message, index, self._environments(index), worker_traceback=error.traceback_str)

    def _stuck(self, index: int) -> WorkerError:
        message = (
            f"{worker_name(index, self._environments(index))} did not reply within worker_timeout = {self._timeout:g} s"
            " (for each step, if it collects) and was killed. An environment of it may be stuck, or slower than that:"
            " then allow more time."
        )
        return WorkerTimeoutError(message, index, self._environments(index))

    def _not_up(self, index: int) -> WorkerError:
        loss = self._placement.loss(index, self._environments(index))  # its node may have died in the meantime
        if loss is not None:
            return loss
        message = (
            f"{worker_name(index, self._environments(index))} has a place on the cluster, but its process did not start"
            f" within {_START_SECONDS:g} s. The logs of Ray on that node (/tmp/ray/session_latest/logs) may say why."
        )
        return WorkerTimeoutError(message, index, self._environments(index))

    def _check_versions(self, index: int, greeting: Greeting, here: dict[str, str]) -> None:
        for library, expected in here.items():
            there = greeting.versions.get(library, "of another version")
            if there != expected:
                raise WorkerError(
                    f"Node {greeting.node_id} has {library} {there}, this process has {expected}, so"
                    " results would depend on the node. Install the same versions everywhere.",
                    index,
                    self._environments(index),
                )

    def _require_open(self) -> None:
        if self.closed:
            raise closed_meanwhile() from None

    def _require_connection(self) -> None:
        self._require_open()
        if not self.connection.is_current():
            raise WorkerError("The connection to Ray was shut down, and with it all workers.", None, ())

    def _kill(self, index: int) -> None:
        with suppress(Exception):  # it is dead already
            ray.kill(self._actors[index])

    def interrupt(self) -> None:
        """Have a thread that waits for actors raise ClosedEnvironmentError soon, and whoever comes after it at once."""
        self.closed = True

    def shutdown(self, grace: float) -> Exception | None:
        """End all workers within about `grace` seconds, by force if need be; harmless when repeated.

        Returns the first exception that an environment raised as it was closed.
        """
        self.interrupt()
        if self._ended or not self.connection.is_current():
            return None  # they have ended, or this is a forked copy of the caller, whose own they are not
        self._ended = True
        alive = [index for index in range(len(self._actors)) if index not in self._dead]
        try:
            closing = [self._actors[index].handle.remote(CLOSE) for index in alive]
            ready, _ = ray.wait(closing, num_returns=len(closing), timeout=grace) if closing else ([], [])
            errors = [self._error_of(index, ref) for index, ref in zip(alive, closing, strict=True) if ref in ready]
        finally:  # an interrupt may have cut the wait short
            for index in alive:
                self._kill(index)
            self._placement.release()
        return next((error for error in errors if error is not None), None)

    def _error_of(self, index: int, closed: Any) -> Exception | None:
        try:
            reply, _ = ray.get(closed, timeout=_FETCH_SECONDS)
        except RayError:
            return None
        if reply[:1] != ERROR:
            return None
        remote: RemoteError = pickle.loads(reply[1:])
        return remote.rebuild(index, self._environments(index))
