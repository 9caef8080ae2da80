"""A worker process: makes its environments, then does what the caller asks.

The caller sends one request at a time and gets exactly one reply:

| request | reply |
|---|---|
| (start) | `Description` of the environments, once they are made |
| `ATTACH` layout | `OK`; from now on actions and results are in shared memory |
| `RESET` (seeds, pickled options) | infos |
| `STEP` | infos |
| `CALL` (name, args, kwargs) | a list of results |
| `SET` (name, values) | `OK` |
| `KEYS` | what each environment's state must fit |
| `CAPTURE` | the states of the environments, and which are pending |
| `RESTORE` state | `OK` |
| `CLOSE` | `OK`, then the process ends |

Any of them may be answered by `ERROR` with a `RemoteError` instead, and the worker goes
on waiting: what an error means is for the caller to decide. A worker whose
caller is gone ends, whatever it is doing.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing import process
from multiprocessing.connection import Connection, wait
from typing import Any

import gymnasium
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.vector.attributes import call_envs, set_env_attr
from superdex.lab.gym.vector.autoreset import Autoreset
from superdex.lab.gym.vector.backend import InnerBackend
from superdex.lab.gym.vector.checks import check_spaces
from superdex.lab.gym.vector.errors import RemoteError
from superdex.lab.gym.vector.infos import relocate
from superdex.lab.gym.vector.partition import make_backend
from superdex.lab.gym.vector.transport import BatchLayout, SharedBuffer
from superdex.lab.gym.vector.wire import ColumnSender, dumps

ATTACH, CALL, CAPTURE, CLOSE, ERROR, KEYS, OK, RESET, RESTORE, SET, STEP = (bytes([code]) for code in range(11))
"""The first byte of every message."""

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


def run_worker(connection: Connection, job: Job) -> None:
    """The worker process's main function."""
    _end_with_parent()
    try:
        worker = _Worker(job)
        reply = OK + dumps(worker.description, "The description of the environments")
    except Exception as error:
        worker = None
        reply = _failure(error)
    try:
        connection.send_bytes(reply)
        while True:
            request = connection.recv_bytes()
            reply = _answer(worker, request)
            connection.send_bytes(reply)
            if request[:1] == CLOSE:
                return
    except (EOFError, OSError):
        pass  # the caller is gone


def _answer(worker: _Worker | None, request: bytes) -> bytes:
    if worker is None:
        return OK  # it failed to start, and can only be closed
    try:
        return worker.handlers[request[:1]](request[1:])
    except Exception as error:
        return _failure(error)


def _failure(error: Exception) -> bytes:
    return ERROR + pickle.dumps(RemoteError.of(error))


def _end_with_parent() -> None:
    """End this process when its parent has ended, even in the middle of a step."""
    parent = process.parent_process()
    assert parent is not None
    parent_id = os.getppid()

    def watch() -> None:
        # A process that the parent forked may keep the sentinel open: look at the parent itself as well.
        while not wait([parent.sentinel], timeout=_PARENT_CHECK_SECONDS) and os.getppid() == parent_id:
            pass
        os._exit(1)

    threading.Thread(target=watch, name="superdex-parent-watch", daemon=True).start()


class _Worker:
    """The environments of one process and a handler for each request."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._first = job.rows.start
        envs = self._make_envs()
        try:
            backend, inner_backends = make_backend(envs, job.num_threads)
            spaces = check_spaces(envs, backend.distinct, self._first)
        except Exception:
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
            SET: self._set,
            KEYS: self._keys,
            CAPTURE: self._capture,
            RESTORE: self._restore,
            CLOSE: self._close,
        }

    def _make_envs(self) -> list[gymnasium.Env]:
        factories = pickle.loads(self._job.factories.map())
        self._job.factories.close()
        envs: list[gymnasium.Env] = []
        for factory in factories:
            try:
                env = factory()
                if not isinstance(env, gymnasium.Env):
                    raise TypeError(f"A factory must return a gymnasium.Env, got {env!r}.")
                envs.append(env)
            except Exception as error:
                error.add_note(f"Raised by the factory of environment {self._first + len(envs)}.")
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
        seeds, options = pickle.loads(request)
        columns = self._autoreset.reset(seeds, pickle.loads(options), self._out.observation)
        return OK + self._sender.send(relocate(columns, self._job.rows))

    def _step(self, request: bytes) -> bytes:
        columns = self._autoreset.step(self._actions, self._out)
        return OK + self._sender.send(relocate(columns, self._job.rows))

    def _call(self, request: bytes) -> bytes:
        name, args, kwargs = pickle.loads(request)
        results = call_envs(self._autoreset.backend.envs, name, args, kwargs, self._first)
        return OK + dumps(results, f"What {name!r} returned")

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
