"""What vector environments have in common whose environments are stepped by workers elsewhere.

`PooledVectorEnv` turns the calls of `BatchedVectorEnv` into requests to a pool of
workers (`superdex.lab.gym.vector.recovery.Pool`), one to each, and joins their
replies. It is the same wherever the workers are: processes of this machine
(`HybridVectorEnv`) or actors on a cluster (`RayVectorEnv`). A subclass starts the
workers and says how to release them.

**Threads.** Calls of several threads take turns. Another thread may close at any
time: then the call that is in the middle of it, or comes next, raises
ClosedEnvironmentError. A daemon thread that uses one as the interpreter exits ends
without a word.
"""

from __future__ import annotations

import pickle
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from superdex.lab.gym.envs.env_state import EnvState, Section, SectionKey
from superdex.lab.gym.vector.base import BatchedVectorEnv
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.errors import closed_meanwhile
from superdex.lab.gym.vector.infos import extend
from superdex.lab.gym.vector.recovery import Assignment, Pool, Receiver, Recovery
from superdex.lab.gym.vector.requests import (
    CAPTURE,
    KEYS,
    RESTORE,
    STEP,
    Description,
    call_request,
    reset_request,
    set_request,
)
from superdex.lab.gym.vector.startup import (
    EnvFactory,
    check_agreement,
    check_count,
    check_factories,
    check_failure_policy,
)
from superdex.lab.gym.vector.wire import dumps

__all__ = ["PooledVectorEnv", "in_turn"]

_CLOSE_SECONDS = 10.0
_ABORT_SECONDS = 1.0
_LEAVE_SECONDS = 5.0
"""Within this, another thread has left its call, or the workers are ended while it is in there."""


_Method = TypeVar("_Method", bound=Callable[..., Any])


def in_turn(method: _Method) -> _Method:
    """A method that uses the workers, for one thread at a time; see the module's docstring."""

    @wraps(method)
    def call(self: PooledVectorEnv, *args: Any, **kwargs: Any) -> Any:
        self._require_same_process()  # in a forked child the turn may be that of a thread which is only in the parent
        with self._turn:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:
                self._raise_if_closed_meanwhile(error)
                raise

    return cast(_Method, call)


class PooledVectorEnv(BatchedVectorEnv):
    """A vector environment over `num_workers` workers of `num_envs_per_worker` environments each."""

    num_envs_per_worker: int
    num_workers: int

    _pool: Pool
    _rows: list[slice]
    """The environments of each worker."""
    _actions: np.ndarray
    """(num_envs, *action_shape): where workers find their actions."""
    _receivers: Sequence[Receiver]
    _recovery: Recovery | None = None
    _turn: threading.RLock
    """Held by the thread that uses the workers."""
    _failed = False
    """Whether a failure has closed it."""

    reset = in_turn(BatchedVectorEnv.reset)
    step = in_turn(BatchedVectorEnv.step)
    call_on = in_turn(BatchedVectorEnv.call_on)
    set_attr = in_turn(BatchedVectorEnv.set_attr)
    capture_state = in_turn(BatchedVectorEnv.capture_state)
    restore_state = in_turn(BatchedVectorEnv.restore_state)

    def _plan(
        self,
        env_fns: Sequence[EnvFactory],
        num_envs_per_worker: int,
        num_threads_per_worker: int,
        on_worker_failure: str,
        max_worker_restarts: int,
        worker_timeout: float | None,
    ) -> list[EnvFactory]:
        """Check what every constructor takes, and know which environments go to which worker; the factories."""
        check_count("num_envs_per_worker", num_envs_per_worker)
        check_count("num_threads_per_worker", num_threads_per_worker, least=0)
        check_failure_policy(on_worker_failure, max_worker_restarts, worker_timeout)
        factories = check_factories(env_fns, num_envs_per_worker)
        self.num_envs_per_worker = k = int(num_envs_per_worker)
        self.num_workers = len(factories) // k
        self._rows = [slice(first, first + k) for first in range(0, len(factories), k)]
        return factories

    def _hold(self, release: Callable[[float], Exception | None]) -> None:
        """Have `release(grace)` end the workers, at the latest when this object is no more (it must not refer to it).

        It takes about `grace` seconds at most, and returns the first exception that an environment raised on closing.
        """
        self._turn = threading.RLock()  # a signal handler may close in the middle of a call of the same thread
        self._release = partial(_end, self._pool, self._turn, release)
        self._finalizer = weakref.finalize(self, self._release, _ABORT_SECONDS)

    def _meet(self, num_envs: int, mode: AutoresetMode, copy: bool) -> None:
        """Wait until the workers have made their environments, and be described by them."""
        descriptions: list[Description] = [pickle.loads(reply) for reply in _all(self._pool.greet())]
        first = descriptions[0]
        check_agreement([description.spaces for description in descriptions], self.num_envs_per_worker)
        self._describe(first.spaces, num_envs, first.metadata, first.render_mode, mode, copy)
        self.inner_backends = tuple(inner for description in descriptions for inner in description.inner_backends)
        self._step_requests: list[bytes | None] = [STEP] * self.num_workers

    def _recover_by_restarts(self, max_restarts: int, attach: bytes | None) -> None:
        """From now on, replace workers that die; `attach`: see `Recovery`."""
        self._pool.max_restarts = max_restarts
        spaces = self.single_observation_space, self.single_action_space
        self._recovery = Recovery(
            self._pool, self._rows, self.autoreset_mode, spaces, attach, self._buffers, self._receivers
        )

    @property
    def worker_restarts(self) -> tuple[int, ...]:
        """(num_workers,): how often each worker was started again."""
        return tuple(self._pool.restarts)

    def _pack_options(self, options: dict[str, Any] | None) -> bytes:
        return dumps(options, "The `options` of reset()")

    def _reset_envs(self, seeds: list[int | None] | None, options: bytes, mask: NDArray[np.bool_] | None) -> Columns:
        assert mask is None  # refused by check_options
        requests = [reset_request(None if seeds is None else seeds[rows], options) for rows in self._rows]
        replies = self._pool.exchange(requests)
        if self._recovery is not None:
            replies = self._recovery.finish_reset(replies, seeds, options)
        return self._columns(replies)

    def _step_envs(self, actions: np.ndarray) -> Columns:
        self._actions[...] = actions
        if self._recovery is None:
            return self._columns(self._pool.exchange(self._step_requests))
        replies = self._pool.exchange(self._recovery.step_requests(STEP))
        return extend(self._columns(replies), self._recovery.finish_step(replies))

    def _columns(self, messages: Sequence[bytes | None]) -> Columns:
        columns: Columns = {}
        for receiver, message in zip(self._receivers, messages, strict=True):
            if message is not None:
                extend(columns, receiver.receive(message))
        return columns

    def _call_envs(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], environments: list[int] | None
    ) -> tuple[Any, ...]:
        member = dumps((name, args, kwargs), f"The arguments of call({name!r})")
        if environments is None:
            replies = self._exchange_patiently([call_request(member, None)] * self.num_workers)
            return tuple(result for reply in replies for result in pickle.loads(reply))
        chosen: list[list[int]] = [[] for _ in self._rows]
        for index in environments:
            chosen[index // self.num_envs_per_worker].append(index)
        replies = self._exchange_patiently([call_request(member, part) if part else None for part in chosen])
        results: dict[int, Any] = {}
        for part, reply in zip(chosen, replies, strict=True):
            results |= zip(part, pickle.loads(reply), strict=True) if part else ()
        return tuple(results[index] for index in environments)

    def _set_env_attr(self, name: str, values: list[Any] | tuple[Any, ...]) -> None:
        requests = [set_request(name, values[rows]) for rows in self._rows]
        assignment: Assignment = {}
        errors: list[Exception] = []
        for w, (rows, reply) in enumerate(zip(self._rows, self._exchange_patiently(requests), strict=True)):
            taken, remote = pickle.loads(reply)
            if remote is not None:
                errors.append(remote.rebuild(w, range(rows.start, rows.stop)))
                requests[w] = set_request(name, values[rows.start : rows.start + taken])
            if taken:
                assignment[w] = requests[w], taken
        if self._recovery is not None:
            self._recovery.assigned(name, assignment)
        if errors:
            raise errors[0]

    def _state_keys(self) -> list[SectionKey]:
        replies = self._exchange_patiently([KEYS] * self.num_workers)
        return [key for reply in replies for key in pickle.loads(reply)]

    def _capture_envs(self) -> tuple[list[Section], NDArray[np.bool_]]:
        parts = [pickle.loads(reply) for reply in self._exchange_patiently([CAPTURE] * self.num_workers)]
        if self._recovery is not None:
            self._recovery.require_told()
        return [section for sections, _ in parts for section in sections], np.concatenate([p for _, p in parts])

    def _restore_envs(self, state: EnvState) -> None:
        parts = [state.part(rows.start, rows.stop) for rows in self._rows]
        self._exchange_patiently([RESTORE + pickle.dumps(part) for part in parts])
        if self._recovery is not None:
            self._recovery.restored(state)

    def _exchange_patiently(self, requests: Sequence[bytes | None]) -> list[bytes]:
        """Exchange, where an exception in an environment leaves the workers usable; b"" where there is no request."""
        replies = {w: b"" for w, request in enumerate(requests) if request is None}
        try:
            while len(replies) < self.num_workers:
                due = [None if w in replies else request for w, request in enumerate(requests)]
                answers = self._pool.exchange(due, fail_fast=False)
                replies |= {w: reply for w, reply in enumerate(answers) if reply is not None}
                missing = set(range(self.num_workers)) - replies.keys()
                if missing:
                    self._recover(missing)
        finally:
            if not self._pool.settled:
                self._fail()
        return [replies[w] for w in range(self.num_workers)]

    def _recover(self, dead: set[int]) -> None:
        assert self._recovery is not None  # else the death was an error
        try:
            self._recovery.replace(dead, self._ready)
        except BaseException:
            self._fail()
            raise

    def _fail(self) -> None:
        """Close without waiting for environments that may be in the middle of something."""
        super()._fail()
        self._failed = self._failed or not self._pool.closed
        self._finalizer()
        self._forget()

    def _raise_if_closed_meanwhile(self, error: Exception) -> None:
        """If somebody ends the workers in the middle of a call, its error is no fault of theirs."""
        main = threading.main_thread()
        if not main.is_alive() and threading.current_thread() is not main:
            raise SystemExit from None  # ends a daemon thread without a word: workers go, or went, with the interpreter
        if self._pool.closed and not self._failed and not isinstance(error, ClosedEnvironmentError):
            raise closed_meanwhile() from None

    def close_extras(self, **kwargs: Any) -> None:
        """End the workers, after they closed their environments; raises what an environment's close() raised."""
        error = None
        if self._finalizer.detach() is not None:
            error = self._release(_CLOSE_SECONDS)
        self._forget()
        if error is not None:
            raise error

    def _forget(self) -> None:
        """Be closed, and let go of the batch (which lives on in results that were not copied)."""
        self.closed = True
        for name in ("_actions", "_buffers", "_receivers", "_recovery"):
            self.__dict__.pop(name, None)


def _end(
    pool: Pool, turn: threading.RLock, release: Callable[[float], Exception | None], grace: float
) -> Exception | None:
    """Release the workers, once no other thread is in the middle of a call."""
    pool.interrupt()
    try:
        if turn.acquire(timeout=_LEAVE_SECONDS):
            turn.release()
    except BaseException:  # an interrupt of this wait
        release(0.0)
        raise
    return release(grace)


def _all(replies: Sequence[bytes | None]) -> list[bytes]:
    """The replies, of which none may be missing."""
    return [reply for reply in replies if reply is not None]
