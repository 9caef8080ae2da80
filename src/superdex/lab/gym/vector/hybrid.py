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
is a `WorkerError`. After either in `reset` or `step` the vector environment is
closed; an exception in `call`, `get_attr` or `set_attr` leaves it usable.

**Not provided.** Selective resets (`reset_mask`); one object shared by several
environments across workers.
"""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Sequence
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from superdex.lab.gym.envs.env_state import EnvState, Section, SectionKey
from superdex.lab.gym.vector.backend import InnerBackend
from superdex.lab.gym.vector.base import BatchedVectorEnv, check_autoreset_mode
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.infos import extend
from superdex.lab.gym.vector.pool import WorkerPool
from superdex.lab.gym.vector.startup import (
    EnvFactory,
    check_agreement,
    check_context,
    check_count,
    check_factories,
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
    RESET,
    RESTORE,
    SET,
    STEP,
    Description,
    Job,
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
        """
        check_process()
        check_count("num_envs_per_worker", num_envs_per_worker)
        check_count("num_threads_per_worker", num_threads_per_worker)
        env_fns = check_factories(env_fns, num_envs_per_worker)
        mode = check_autoreset_mode(autoreset_mode)
        check_context(context)
        self.num_envs_per_worker = int(num_envs_per_worker)
        self.num_workers = len(env_fns) // self.num_envs_per_worker
        batch = SharedBuffer()
        jobs = [
            Job(w, self.num_envs_per_worker, num_threads_per_worker, mode, SharedBuffer(), batch, SharedBuffer())
            for w in range(self.num_workers)
        ]
        self._rows = [job.rows for job in jobs]
        self._arenas = [job.arena for job in jobs]
        for job in jobs:
            job.factories.write(pickle_factories(env_fns, job.rows))
        self._pool = WorkerPool(jobs)
        self._finalizer = weakref.finalize(self, _release, self._pool, self._arenas, _ABORT_SECONDS)
        try:
            for job in jobs:
                job.factories.close()
            self._set_up(batch, len(env_fns), mode, copy)
            batch.close()
        except BaseException:
            self._fail()
            raise

    def _set_up(self, batch: SharedBuffer, num_envs: int, mode: AutoresetMode, copy: bool) -> None:
        """Wait for the environments, agree with the workers on the layout, and share memory with them."""
        descriptions: list[Description] = [pickle.loads(reply) for reply in self._pool.collect()]
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
        self._pool.exchange([ATTACH + pickle.dumps(layout)] * self.num_workers)
        self._step_requests = [STEP] * self.num_workers

    def _pack_options(self, options: dict[str, Any] | None) -> bytes:
        return dumps(options, "The `options` of reset()")

    def _reset_envs(self, seeds: list[int | None] | None, options: bytes, mask: NDArray[np.bool_] | None) -> Columns:
        assert mask is None  # refused by check_options
        requests = [RESET + pickle.dumps((None if seeds is None else seeds[rows], options)) for rows in self._rows]
        return self._columns(self._pool.exchange(requests))

    def _step_envs(self, actions: np.ndarray) -> Columns:
        self._actions[...] = actions
        return self._columns(self._pool.exchange(self._step_requests))

    def _columns(self, messages: list[bytes]) -> Columns:
        columns: Columns = {}
        for receiver, message in zip(self._receivers, messages, strict=True):
            extend(columns, receiver.receive(message))
        return columns

    def _call_envs(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        request = CALL + dumps((name, args, kwargs), f"The arguments of call({name!r})")
        replies = self._exchange_patiently([request] * self.num_workers)
        return tuple(result for reply in replies for result in pickle.loads(reply))

    def _set_env_attr(self, name: str, values: list[Any] | tuple[Any, ...]) -> None:
        requests = [SET + dumps((name, values[rows]), f"A value for {name!r}") for rows in self._rows]
        self._exchange_patiently(requests)

    def _state_keys(self) -> list[SectionKey]:
        replies = self._exchange_patiently([KEYS] * self.num_workers)
        return [key for reply in replies for key in pickle.loads(reply)]

    def _capture_envs(self) -> tuple[list[Section], NDArray[np.bool_]]:
        parts = [pickle.loads(reply) for reply in self._exchange_patiently([CAPTURE] * self.num_workers)]
        return [section for sections, _ in parts for section in sections], np.concatenate([p for _, p in parts])

    def _restore_envs(self, state: EnvState) -> None:
        parts = [state.part(rows.start, rows.stop) for rows in self._rows]
        self._exchange_patiently([RESTORE + pickle.dumps(part) for part in parts])

    def _exchange_patiently(self, requests: list[bytes]) -> list[bytes]:
        """Exchange, where an exception in an environment leaves the workers usable."""
        try:
            return self._pool.exchange(requests, fail_fast=False)
        finally:
            if not self._pool.settled:
                self._fail()

    def _fail(self) -> None:
        """Close without waiting for environments that may be in the middle of something."""
        super()._fail()
        self._finalizer()
        self._forget()

    def close_extras(self, **kwargs: Any) -> None:
        """End the workers, after they closed their environments; raises what an environment's close() raised."""
        error = None
        if self._finalizer.detach() is not None:
            error = _release(self._pool, self._arenas, _CLOSE_SECONDS)
        self._forget()
        if error is not None:
            raise error

    def _forget(self) -> None:
        """Be closed, and let go of the shared memory (which lives on in results that were not copied)."""
        self.closed = True
        for name in ("_actions", "_buffers", "_receivers"):
            self.__dict__.pop(name, None)


def _release(pool: WorkerPool, arenas: list[SharedBuffer], grace: float) -> Exception | None:
    error = pool.shutdown(grace)
    for arena in arenas:
        arena.close()
    return error
