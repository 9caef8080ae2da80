"""A worker process: makes its environments, then does what the caller asks.

The caller sends one request at a time and gets exactly one reply:

| request | reply |
|---|---|
| (start) | `GREETING`, once the process is up and has imported what the factories need |
| | `Description` of the environments, once they are made |
| `ATTACH` layout | `OK`; from now on actions and results are in shared memory |
| `RESET` (seeds, pickled options, pending) | infos |
| `STEP` | infos |
| `CALL` (name, args, kwargs) | a list of results |
| `RENDER` indices | what their `render` returns |
| `SET` (name, values) | `OK` |
| `KEYS` | what each environment's state must fit |
| `CAPTURE` | the states of the environments, and which are pending |
| `RESTORE` state | `OK` |
| `CLOSE` | `OK`, then the process ends |

Any of them may be answered by `ERROR` with a `RemoteError` instead, and the worker goes
on waiting: what an error means is for the caller to decide.

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
from dataclasses import dataclass, replace
from multiprocessing import process
from multiprocessing.connection import Connection, wait
from typing import Any

import gymnasium
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.vector.attributes import call_envs, render_envs, set_env_attr
from superdex.lab.gym.vector.autoreset import Autoreset
from superdex.lab.gym.vector.backend import InnerBackend
from superdex.lab.gym.vector.channel import Channel
from superdex.lab.gym.vector.checks import check_spaces
from superdex.lab.gym.vector.errors import RemoteError, name_environment
from superdex.lab.gym.vector.infos import relocate
from superdex.lab.gym.vector.partition import make_backend
from superdex.lab.gym.vector.transport import BatchLayout, SharedBuffer
from superdex.lab.gym.vector.wire import ColumnSender, dumps

__all__ = [
    "ATTACH",
    "CALL",
    "CAPTURE",
    "CLOSE",
    "ERROR",
    "GREETING",
    "KEYS",
    "OK",
    "RENDER",
    "RESET",
    "RESTORE",
    "SET",
    "STEP",
    "WHERE_SIGNAL",
    "Description",
    "Job",
    "reset_request",
    "run_worker",
]

ATTACH, CALL, CAPTURE, CLOSE, ERROR, KEYS, OK, RENDER, RESET, RESTORE, SET, STEP = (bytes([i]) for i in range(12))
"""The first byte of every message."""
GREETING = b""
"""The only message without one."""

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


@dataclass(frozen=True)
class Description:
    """What a worker says of its environments."""

    spaces: tuple[Box, Box]
    metadata: dict[str, Any]
    render_mode: str | None
    inner_backends: tuple[InnerBackend, ...]
    """With global indices."""


def reset_request(seeds: list[int | None] | None, options: bytes, pending: bool = False) -> bytes:
    """A RESET; with `pending`, the environments count as not yet reset since their episodes ended."""
    return RESET + pickle.dumps((seeds, options, pending))


def run_worker(connection: Connection, last_words: SharedBuffer, job: Job) -> None:
    """The worker process's main function."""
    _end_with_parent()
    faulthandler.enable(last_words.fileno())
    faulthandler.register(WHERE_SIGNAL, last_words.fileno(), all_threads=False)
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
        return None, _failure(error)


def _answer(worker: _Worker | None, request: bytes) -> bytes:
    if worker is None:
        return OK  # it failed to start, and can only be closed
    try:
        return worker.handlers[request[:1]](request[1:])
    except BaseException as error:  # an environment's SystemExit is its error, not the end of the worker
        return _failure(error)


def _failure(error: BaseException) -> bytes:
    return ERROR + pickle.dumps(RemoteError.of(error))


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


class _Worker:
    """The environments of one process and a handler for each request."""

    def __init__(self, job: Job, factories: list[Callable[[], Any]]) -> None:
        self._job = job
        self._first = job.rows.start
        envs = self._make_envs(factories)
        try:
            backend, inner_backends = make_backend(envs, job.num_threads)
            spaces = check_spaces(envs, backend.distinct, self._first)
        except BaseException:
            _close_all(envs)
            raise
        self._autoreset = Autoreset(backend, job.autoreset_mode, self._first)
        self._sender = ColumnSender(job.arena)
        self.description = Description(
            spaces, dict(envs[0].metadata), envs[0].render_mode, tuple(map(self._globally, inner_backends))
        )
        self.handlers: dict[bytes, Callable[[bytes], bytes]] = {
            ATTACH: self._attach,
            RESET: self._reset,
            STEP: self._step,
            CALL: self._call,
            RENDER: self._render,
            SET: self._set,
            KEYS: self._keys,
            CAPTURE: self._capture,
            RESTORE: self._restore,
            CLOSE: self._close,
        }

    def _make_envs(self, factories: list[Callable[[], Any]]) -> list[gymnasium.Env]:
        envs: list[gymnasium.Env] = []
        for factory in factories:
            try:
                env = factory()
                if not isinstance(env, gymnasium.Env):
                    raise TypeError(f"A factory must return a gymnasium.Env, got {env!r}.")
                envs.append(env)
            except BaseException as error:
                name_environment(error, self._first + len(envs), "Raised by the factory of")
                _close_all(envs)
                raise
        return envs

    def _globally(self, inner: InnerBackend) -> InnerBackend:
        return InnerBackend(inner.kind, tuple(self._first + e for e in inner.environments), inner.reason)

    def _attach(self, request: bytes) -> bytes:
        layout: BatchLayout = pickle.loads(request)
        self._actions, self._out = layout.views(self._job.batch.map(), self._job.rows)
        self._job.batch.close()
        return OK

    def _reset(self, request: bytes) -> bytes:
        seeds, options, pending = pickle.loads(request)
        columns = self._autoreset.reset(seeds, pickle.loads(options), self._out.observation)
        self._autoreset.pending[:] = pending
        return OK + self._sender.send(relocate(columns, self._job.rows))

    def _step(self, request: bytes) -> bytes:
        columns = self._autoreset.step(self._actions, self._out)
        return OK + self._sender.send(relocate(columns, self._job.rows))

    def _call(self, request: bytes) -> bytes:
        name, args, kwargs = pickle.loads(request)
        results = call_envs(self._autoreset.backend.envs, name, args, kwargs, self._first)
        return OK + dumps(results, f"What {name!r} returned")

    def _render(self, request: bytes) -> bytes:
        environments = pickle.loads(request)
        frames = render_envs(self._autoreset.backend.envs, environments, self._first)
        return OK + dumps(frames, "What 'render' returned")

    def _set(self, request: bytes) -> bytes:
        name, values = pickle.loads(request)
        set_env_attr(self._autoreset.backend.envs, name, values, self._first)
        return OK

    def _keys(self, request: bytes) -> bytes:
        return OK + pickle.dumps(self._autoreset.backend.state_keys())

    def _capture(self, request: bytes) -> bytes:
        sections, pending = self._autoreset.capture()
        moved = [replace(section, environments=section.environments + self._first) for section in sections]
        return OK + pickle.dumps((moved, pending))

    def _restore(self, request: bytes) -> bytes:
        self._autoreset.restore(pickle.loads(request))
        return OK

    def _close(self, request: bytes) -> bytes:
        self._autoreset.close()
        return OK


def _close_all(envs: list[gymnasium.Env]) -> None:
    """Close what was made before an error; that error counts, further ones do not."""
    for env in envs:
        with contextlib.suppress(Exception):
            env.close()
