"""Environments in worker processes, each worker stepping several.

    from superdex.lab.gym.utils.vector import HybridVectorEnv

    def main():
        with HybridVectorEnv([make_env] * 1000, num_envs_per_worker=125) as env:
            observations, infos = env.reset(seed=0)
            result = env.step(actions)

    if __name__ == "__main__":      # workers are spawned: each imports this module
        main()

**Guaranteed.** For any environments with Box spaces, any split and any autoreset
mode, results equal those of `gymnasium.vector.SyncVectorEnv(env_fns)`, value for
value and dtype for dtype, infos included. Where Gymnasium itself lets the order
or the split decide, ours does not (`superdex.lab.gym.vector.infos`). Actions are
converted to the dtype of the action space, and an environment that changes its
`options` changes them for itself only.

**When something fails.** An exception in an environment reaches the caller with
its type, the worker's traceback and the environment's index; a worker that dies
is a `WorkerError`, one that takes longer than `worker_timeout` (and is killed) a
`WorkerTimeoutError`. After any of them in the constructor, `reset` or `step` all is
closed, and so it is when a worker dies in another call; an exception in `call`,
`get_attr` or `set_attr` leaves it usable. With `on_worker_failure="restart"` a worker
that died or was killed is replaced instead, and its episodes are truncated
(`superdex.lab.gym.vector.recovery`); an environment's exception is raised even then.

**Not provided.** Selective resets (`reset_mask`); one object shared by several
environments across workers.
"""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Sequence
from multiprocessing.context import BaseContext
from typing import Any, Literal

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from superdex.lab.gym.envs.env_state import EnvState, Section, SectionKey
from superdex.lab.gym.vector.backend import InnerBackend
from superdex.lab.gym.vector.base import BatchedVectorEnv, check_autoreset_mode
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.infos import extend
from superdex.lab.gym.vector.pool import WorkerPool
from superdex.lab.gym.vector.recovery import Recovery
from superdex.lab.gym.vector.startup import (
    EnvFactory,
    check_agreement,
    check_context,
    check_count,
    check_factories,
    check_failure_policy,
    check_process,
    pickle_factories,
)
from superdex.lab.gym.vector.transport import BatchLayout, SharedBuffer
from superdex.lab.gym.vector.wire import ColumnReceiver, dumps
from superdex.lab.gym.vector.worker import (
    ATTACH,
    CALL,
    CAPTURE,
    KEYS,
    RESTORE,
    SET,
    STEP,
    Description,
    Job,
    reset_request,
)

__all__ = ["HybridVectorEnv"]

_CLOSE_SECONDS = 10.0
_ABORT_SECONDS = 1.0


class HybridVectorEnv(BatchedVectorEnv):
    """A vector environment over `num_workers` processes of `num_envs_per_worker` environments each.

    In a worker, environments of one class, scene and configuration step as one
    native batch; any others step one after another. `inner_backends` tells which.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFactory],
        num_envs_per_worker: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        context: str | BaseContext | None = None,
        copy: bool = True,
        num_threads_per_worker: int = 1,
        worker_timeout: float | None = None,
        on_worker_failure: Literal["raise", "restart"] = "raise",
        max_worker_restarts: int = 10,
    ) -> None:
        """Start the workers and make the environments.

        Args:
            env_fns: one factory per environment; they travel to the workers by cloudpickle.
            num_envs_per_worker: environments per process; divides `len(env_fns)`.
            autoreset_mode: when an environment whose episode ended is reset.
            context: only "spawn" (or None) is used; anything else draws a warning.
            copy: whether results are the caller's to keep. If False, observations,
                rewards and flags are views that the next `step` or `reset` overwrites.
            num_threads_per_worker: threads of each worker's native batch.
            worker_timeout: [s] in which a worker must answer any one call, construction included
                (from when its process is up); one that does not is killed. None: no limit.
            on_worker_failure: whether the death of a worker is raised as an error, or the worker
                is started again and its environments' episodes are truncated.
            max_worker_restarts: how often each worker is started again before its death is an error after all.
        """
        check_process()
        check_count("num_envs_per_worker", num_envs_per_worker)
        check_count("num_threads_per_worker", num_threads_per_worker)
        check_failure_policy(on_worker_failure, max_worker_restarts, worker_timeout)
        env_fns = check_factories(env_fns, num_envs_per_worker)
        mode = check_autoreset_mode(autoreset_mode)
        check_context(context)
        self.num_envs_per_worker = int(num_envs_per_worker)
        self.num_workers = len(env_fns) // self.num_envs_per_worker
        jobs = self._launch(env_fns, num_threads_per_worker, mode, worker_timeout)
        try:
            attach = self._set_up(jobs[0].batch, len(env_fns), mode, copy)
            if on_worker_failure == "restart":
                self._pool.max_restarts = int(max_worker_restarts)
                spaces = self.single_observation_space, self.single_action_space
                self._recovery = Recovery(self._pool, self._rows, mode, spaces, attach, self._buffers, self._receivers)
            else:
                for job in jobs:  # each process has its own hold on them
                    job.factories.close()
                    job.batch.close()
        except BaseException:
            self._fail()
            raise

    def _launch(
        self, env_fns: Sequence[EnvFactory], num_threads: int, mode: AutoresetMode, timeout: float | None
    ) -> list[Job]:
        """Start the workers with what they need to make their environments."""
        k, batch = self.num_envs_per_worker, SharedBuffer()
        jobs = [Job(w, k, num_threads, mode, SharedBuffer(), batch, SharedBuffer()) for w in range(self.num_workers)]
        self._rows = [job.rows for job in jobs]
        self._arenas = [job.arena for job in jobs]
        for job in jobs:
            job.factories.write(pickle_factories(env_fns, job.rows))
        self._shared = [batch, *self._arenas, *(job.factories for job in jobs)]
        self._pool = WorkerPool(jobs, timeout)
        self._finalizer = weakref.finalize(self, _release, self._pool, self._shared, _ABORT_SECONDS)
        return jobs

    _recovery: Recovery | None = None

    def _set_up(self, batch: SharedBuffer, num_envs: int, mode: AutoresetMode, copy: bool) -> bytes:
        """Wait for the environments, agree on the layout, and share memory; returns the request that did so."""
        descriptions: list[Description] = [pickle.loads(reply) for reply in _all(self._pool.greet())]
        first = descriptions[0]
        check_agreement([description.spaces for description in descriptions], self.num_envs_per_worker)
        self._describe(first.spaces, num_envs, first.metadata, first.render_mode, mode, copy)
        self.inner_backends: tuple[InnerBackend, ...] = tuple(
            inner for description in descriptions for inner in description.inner_backends
        )
        observation, action = first.spaces
        layout = BatchLayout(num_envs, observation.shape, observation.dtype, action.shape, action.dtype)
        batch.allocate(layout.size)
        self._actions, self._buffers = layout.views(batch.map(), slice(0, num_envs))
        self._receivers = [ColumnReceiver(arena) for arena in self._arenas]
        attach = ATTACH + pickle.dumps(layout)
        self._pool.exchange([attach] * self.num_workers)
        self._step_requests: list[bytes | None] = [STEP] * self.num_workers
        return attach

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

    def _call_envs(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        request = CALL + dumps((name, args, kwargs), f"The arguments of call({name!r})")
        replies = self._exchange_patiently([request] * self.num_workers)
        return tuple(result for reply in replies for result in pickle.loads(reply))

    def _set_env_attr(self, name: str, values: list[Any] | tuple[Any, ...]) -> None:
        requests = [SET + dumps((name, values[rows]), f"A value for {name!r}") for rows in self._rows]
        self._exchange_patiently(requests)
        if self._recovery is not None:
            self._recovery.assigned(name, requests)

    def _state_keys(self) -> list[SectionKey]:
        replies = self._exchange_patiently([KEYS] * self.num_workers)
        return [key for reply in replies for key in pickle.loads(reply)]

    def _capture_envs(self) -> tuple[list[Section], NDArray[np.bool_]]:
        parts = [pickle.loads(reply) for reply in self._exchange_patiently([CAPTURE] * self.num_workers)]
        return [section for sections, _ in parts for section in sections], np.concatenate([p for _, p in parts])

    def _restore_envs(self, state: EnvState) -> None:
        parts = [state.part(rows.start, rows.stop) for rows in self._rows]
        self._exchange_patiently([RESTORE + pickle.dumps(part) for part in parts])
        if self._recovery is not None:
            self._recovery.restored(state)

    def _exchange_patiently(self, requests: Sequence[bytes]) -> list[bytes]:
        """Exchange, where an exception in an environment leaves the workers usable."""
        replies: dict[int, bytes] = {}
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
        self._finalizer()
        self._forget()

    def close_extras(self, **kwargs: Any) -> None:
        """End the workers, after they closed their environments; raises what an environment's close() raised."""
        error = None
        if self._finalizer.detach() is not None:
            error = _release(self._pool, self._shared, _CLOSE_SECONDS)
        self._forget()
        if error is not None:
            raise error

    def _forget(self) -> None:
        """Be closed, and let go of the shared memory (which lives on in results that were not copied)."""
        self.closed = True
        for name in ("_actions", "_buffers", "_receivers", "_recovery"):
            self.__dict__.pop(name, None)


def _all(replies: Sequence[bytes | None]) -> list[bytes]:
    """The replies, of which none may be missing."""
    return [reply for reply in replies if reply is not None]


def _release(pool: WorkerPool, shared: list[SharedBuffer], grace: float) -> Exception | None:
    error = pool.shutdown(grace)
    for buffer in shared:
        buffer.close()
    return error
