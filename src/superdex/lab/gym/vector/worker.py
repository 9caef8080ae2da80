"""A worker process: makes its environments, then does what the caller asks.

Requests and replies are those of `superdex.lab.gym.vector.requests`, with these in addition:

| request | reply |
|---|---|
| (start) | `GREETING`, once the process is up and has imported what the factories need |
| `ATTACH` layout | `OK`; from now on actions and results are in shared memory |

Infos are columns in shared memory, too (`superdex.lab.gym.vector.wire`). After `CLOSE` the
process ends.

A worker whose caller is gone ends, whatever it is doing, even native code that holds
the GIL: Linux kills it when the caller's end of a pipe closes (`_end_with_parent`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import os
import pickle
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import process
from multiprocessing.connection import Connection, wait
from typing import Any

from gymnasium.vector import AutoresetMode

from superdex.lab.gym.vector.channel import Channel
from superdex.lab.gym.vector.host import EnvHost, failure
from superdex.lab.gym.vector.requests import ATTACH, CLOSE, OK, RESET, STEP
from superdex.lab.gym.vector.transport import BatchLayout, SharedBuffer
from superdex.lab.gym.vector.wire import ColumnSender, dumps

__all__ = ["GREETING", "WHERE_SIGNAL", "Job", "run_worker"]

GREETING = b""
"""The only message without a first byte that says what it is."""

WHERE_SIGNAL = getattr(signal, "SIGRTMIN", signal.SIGUSR2)
"""On this signal a worker writes where it is into the file for its last words."""

_LINGER_SECONDS = 3e-4
"""How long a worker looks for the next request before it sleeps: waking up can cost a fifth of a cheap task's step.

MuJoCo's own batch threads do the same between two calls.
"""
_PARENT_CHECK_SECONDS = 1.0


@dataclass(frozen=True)
class Job:
    """What one worker is to do; everything that must be there before it starts."""

    index: int
    num_envs: int
    num_threads: int
    """Of each native batch; 0 for what the environments' configuration says."""
    autoreset_mode: AutoresetMode
    factories: SharedBuffer
    """The cloudpickled list of environment factories."""
    batch: SharedBuffer
    """Actions and results of all workers."""
    arena: SharedBuffer
    """This worker's infos."""

    @property
    def rows(self) -> slice:
        """Its environments among all."""
        return slice(self.index * self.num_envs, (self.index + 1) * self.num_envs)


def run_worker(connection: Connection, last_words: SharedBuffer, job: Job) -> None:
    """The worker process's main function."""
    _end_with_parent()
    faulthandler.enable(last_words.fileno())
    faulthandler.register(WHERE_SIGNAL, last_words.fileno(), all_threads=False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {WHERE_SIGNAL})  # blocked by who started this process
    channel = Channel(connection, blocking=True)
    with contextlib.suppress(EOFError, OSError):  # the caller is gone
        worker, reply = _start(channel, job)
        channel.send(reply)
        while (request := channel.receive()) is not None:
            channel.send(_answer(worker, request))
            if request[:1] == CLOSE:
                return
            if request[:1] == STEP:
                channel.linger(_LINGER_SECONDS)


def _start(channel: Channel, job: Job) -> tuple[_Worker | None, bytes]:
    try:
        factories = pickle.loads(job.factories.map())
        job.factories.close()
        channel.send(GREETING)
        worker = _Worker(job, factories)
        return worker, OK + dumps(worker.description, "The description of the environments")
    except BaseException as error:
        return None, failure(error)


def _answer(worker: _Worker | None, request: bytes) -> bytes:
    if worker is None:
        return OK  # it failed to start, and can only be closed
    try:
        return worker.handlers[request[:1]](request[1:])
    except BaseException as error:
        return failure(error)


def _end_with_parent() -> None:
    """End this process when its parent has ended, even in the middle of a step.

    The parent's sentinel is a pipe whose other end only the parent holds. Closing it
    sends SIGKILL here, which needs neither the GIL nor a thread to run. (The usual
    PR_SET_PDEATHSIG would fire when the *thread* that started this worker ends.) A
    thread watches as well: for other systems, and for parents that forked, whose
    children hold the pipe open.
    """
    parent = process.parent_process()
    assert parent is not None
    parent_id = os.getppid()
    with contextlib.suppress(AttributeError, OSError):  # F_SETSIG is Linux's
        fcntl.fcntl(parent.sentinel, fcntl.F_SETSIG, signal.SIGKILL)  # type: ignore[attr-defined]
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)

    def watch() -> None:
        while not wait([parent.sentinel], timeout=_PARENT_CHECK_SECONDS) and os.getppid() == parent_id:
            pass
        os._exit(1)

    threading.Thread(target=watch, name="superdex-parent-watch", daemon=True).start()


class _Worker(EnvHost):
    """The environments of one process and a handler for each request."""

    def __init__(self, job: Job, factories: list[Callable[[], Any]]) -> None:
        super().__init__(job.rows, factories, job.num_threads, job.autoreset_mode)
        self._batch = job.batch
        self._sender = ColumnSender(job.arena)
        self.handlers |= {ATTACH: self._attach, RESET: self._reset, STEP: self._step}

    def _attach(self, request: bytes) -> bytes:
        layout: BatchLayout = pickle.loads(request)
        self._actions, self.out = layout.views(self._batch.map(), self.rows)
        self._batch.close()
        return OK

    def _reset(self, request: bytes) -> bytes:
        return OK + self._sender.send(self.reset(request))

    def _step(self, request: bytes) -> bytes:
        return OK + self._sender.send(self.step(self._actions))
