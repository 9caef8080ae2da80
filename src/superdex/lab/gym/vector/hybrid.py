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
(`superdex.lab.gym.vector.recovery`); an environment's exception is raised even then. If
another thread closes in the middle of a call, that raises ClosedEnvironmentError.

**Not provided.** Selective resets (`reset_mask`); one object shared by several
environments across workers.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import partial
from multiprocessing.context import BaseContext
from typing import Literal

from gymnasium.vector import AutoresetMode

from superdex.lab.gym.vector.checks import check_autoreset_mode
from superdex.lab.gym.vector.pool import WorkerPool
from superdex.lab.gym.vector.pooled import PooledVectorEnv, in_turn
from superdex.lab.gym.vector.requests import ATTACH
from superdex.lab.gym.vector.startup import EnvFactory, check_context, check_process, pickle_factories
from superdex.lab.gym.vector.transport import BatchLayout, SharedBuffer
from superdex.lab.gym.vector.wire import ColumnReceiver
from superdex.lab.gym.vector.worker import Job

__all__ = ["HybridVectorEnv"]


class HybridVectorEnv(PooledVectorEnv):
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
        num_threads_per_worker: int = 0,
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
            num_threads_per_worker: native threads of a batch in a worker; 0 for its configuration's
                `num_worker_threads`, and 1 if that is 0, too.
            worker_timeout: [s] in which a worker must answer any one call, construction included
                (from when its process is up, which may take a minute, or this if it is longer);
                one that does not is killed. None: no limit.
            on_worker_failure: whether the death of a worker is raised as an error, or the worker
                is started again and its environments' episodes are truncated.
            max_worker_restarts: how often each worker is started again before its death is an error after all.
        """
        check_process()
        env_fns = self._plan(
            env_fns, num_envs_per_worker, num_threads_per_worker, on_worker_failure, max_worker_restarts, worker_timeout
        )
        mode = check_autoreset_mode(autoreset_mode)
        check_context(context)
        jobs = self._launch(env_fns, int(num_threads_per_worker), mode, worker_timeout)
        try:
            attach = self._set_up(jobs[0].batch, len(env_fns), mode, copy)
            if on_worker_failure == "restart":
                self._recover_by_restarts(int(max_worker_restarts), attach)
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
        self._arenas = [job.arena for job in jobs]
        for job in jobs:
            job.factories.write(pickle_factories(env_fns, job.rows))
        shared = [batch, *self._arenas, *(job.factories for job in jobs)]
        pool = WorkerPool(jobs, timeout)
        self._pool = pool
        self._hold(partial(_release, pool, shared))
        return jobs

    @in_turn
    def _set_up(self, batch: SharedBuffer, num_envs: int, mode: AutoresetMode, copy: bool) -> bytes:
        """Wait for the environments, agree on the layout, and share memory; returns the request that did so."""
        self._meet(num_envs, mode, copy)
        observation, action = self.single_observation_space, self.single_action_space
        layout = BatchLayout(num_envs, observation.shape, observation.dtype, action.shape, action.dtype)
        batch.allocate(layout.size)
        self._actions, self._buffers = layout.views(batch.map(), slice(0, num_envs))
        self._receivers = [ColumnReceiver(arena) for arena in self._arenas]
        attach = ATTACH + pickle.dumps(layout)
        self._pool.exchange([attach] * self.num_workers)
        return attach


def _release(pool: WorkerPool, shared: list[SharedBuffer], grace: float) -> Exception | None:
    error = pool.shutdown(grace)
    for buffer in shared:
        buffer.close()
    return error
