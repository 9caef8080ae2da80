"""Environments on the nodes of a cluster, each worker an actor of Ray that steps several.

    from superdex.lab.gym.distributed import RayVectorEnv

    with RayVectorEnv([make_env] * 4000, num_envs_per_worker=1000, num_threads_per_worker=32) as env:
        observations, infos = env.reset(seed=0)
        result = env.step(actions)                   # stepwise: 2 to 4 ms per call on top
        rollout = env.collect(policy, num_steps=64)  # or the policy goes to the environments

**Guaranteed.** What `HybridVectorEnv` guarantees (`superdex.lab.gym.vector.hybrid`),
with the same results to the bit, wherever the workers are, as long as all nodes
have the same versions of this package, MuJoCo, NumPy and Gymnasium (which is
checked) and processors with the same instructions. States captured from either
continue in the other.

**When something fails.** As in `HybridVectorEnv`. A worker dies alone or with its
node; with `on_worker_failure="restart"` its successor starts on what the cluster
has left. What Ray knows of a death is in the `WorkerError`; there is no exit code.
A cluster without room for all workers is a `PlacementError` within `scheduling_timeout`.

**Collecting.** A call of Ray costs more than a step of a cheap task. So `collect`
sends the policy instead of actions: once for many steps, and rollouts come back in
one piece. It gives what `superdex.lab.gym.rollouts.collect` gives on one machine.

**Not provided.** Selective resets (`reset_mask`); Ray Client (`ray://`).
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.distributed.actor import ActorJob, collect_request
from superdex.lab.gym.distributed.connection import connect, disconnect
from superdex.lab.gym.distributed.freight import Freight
from superdex.lab.gym.distributed.placement import Placement
from superdex.lab.gym.distributed.pool import ActorPool
from superdex.lab.gym.rollouts import Policy, Rollout
from superdex.lab.gym.rollouts.collecting import require_same_step
from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.checks import check_autoreset_mode
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.pooled import PooledVectorEnv, in_turn
from superdex.lab.gym.vector.startup import EnvFactory, check_count, pickle_factories
from superdex.lab.gym.vector.wire import dumps

__all__ = ["RayVectorEnv"]


class RayVectorEnv(PooledVectorEnv):
    """A vector environment over `num_workers` actors of `num_envs_per_worker` environments each.

    In an actor they step as in a worker process of `HybridVectorEnv`; `inner_backends` tells how.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFactory],
        num_envs_per_worker: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        num_threads_per_worker: int = 0,
        num_cpus_per_worker: float | None = None,
        address: str | None = None,
        scheduling_timeout: float = 60.0,
        worker_timeout: float | None = None,
        on_worker_failure: Literal["raise", "restart"] = "raise",
        max_worker_restarts: int = 10,
    ) -> None:
        """Start the actors and make the environments.

        Arguments that `HybridVectorEnv` has, too, mean the same, of actors instead of processes.

        Args:
            env_fns, num_envs_per_worker, autoreset_mode, copy: see `HybridVectorEnv`.
            num_threads_per_worker: see `HybridVectorEnv`. Where environments' configuration decides (0), say
                `num_cpus_per_worker`, too: they are not made yet when Ray reserves CPUs for them.
            num_cpus_per_worker: logical CPUs that Ray reserves for each actor; by default
                `num_threads_per_worker`, or 1 if that is 0.
            address: of the cluster, if this process is not connected to one: "auto" or "host:port". None: the one in
                RAY_ADDRESS, else the one that runs on this machine, else a new one of this machine alone.
            scheduling_timeout: [s] within which the cluster must have room for all actors, and for one that is
                started again. Allow minutes where an autoscaler adds nodes.
            worker_timeout: [s] in which an actor must answer any one call, construction included (from when its
                process is up), `collect` once per step; one that does not is killed. None: no limit.
            on_worker_failure, max_worker_restarts: see `HybridVectorEnv`.

        Raises:
            PlacementError: if the cluster has no room.
            WorkerError: if a node has other versions of libraries, or an actor dies.
        """
        env_fns = self._plan(
            env_fns, num_envs_per_worker, num_threads_per_worker, on_worker_failure, max_worker_restarts, worker_timeout
        )
        _check_patience(scheduling_timeout)
        num_cpus = _checked_cpus((num_threads_per_worker or 1) if num_cpus_per_worker is None else num_cpus_per_worker)
        mode = check_autoreset_mode(autoreset_mode)
        jobs = [
            ActorJob(rows, pickle_factories(env_fns, rows), int(num_threads_per_worker), mode) for rows in self._rows
        ]
        self._pool = self._actors = _start(jobs, num_cpus, address, scheduling_timeout, worker_timeout)
        self._hold(partial(_release, self._actors))
        try:
            self._set_up(len(env_fns), mode, copy)
            if on_worker_failure == "restart":
                self._recover_by_restarts(int(max_worker_restarts), attach=None)
        except BaseException:
            self._fail()
            raise

    @in_turn
    def _set_up(self, num_envs: int, mode: AutoresetMode, copy: bool) -> None:
        """Wait for the environments, and have a place for what goes to them and comes from them."""
        self._meet(num_envs, mode, copy)
        self._actions = np.zeros(self.action_space.shape, self.action_space.dtype)
        self._buffers = StepBuffers.allocate(self.observation_space, num_envs)
        self._receivers = [_Unpickler()] * self.num_workers
        self._actors.freight = self._freight = Freight(self._rows, self._actions, self._buffers)

    @property
    def worker_nodes(self) -> tuple[str, ...]:
        """(num_workers,): the id of the node that each actor is on, as in `ray.nodes()`."""
        return tuple(self._actors.nodes)

    @in_turn
    def collect(self, policy: Policy, num_steps: int, *, first_step: int = 0) -> Rollout:
        """Step all environments for `num_steps`, with the policy beside them; see `superdex.lab.gym.rollouts.collect`.

        Each actor goes on from its last observations, and the next `step` or `collect` from where this one ends.

        If an actor dies and may be started again, its environments are reset and their part of the rollout is
        collected anew from there; all others' parts are kept. The rollout's `restarted` tells which
        environments these are.

        Args:
            policy: travels to each actor by cloudpickle, and gets the slice of environments that it acts for.
            num_steps: at least 1.
            first_step: the number of the first of these steps since training began, for the policy.

        Raises:
            ValueError: if the mode is not SAME_STEP, or an argument does not fit.
            ResetNeeded: before the first `reset`.
        """
        self._require_open()
        require_same_step(self, "collect()")
        check_count("num_steps", num_steps)
        if not self._ready:
            raise ResetNeeded("Call reset() before the first collect() and after a call that failed.")
        packed = dumps(policy, "The policy")
        try:
            return self._collect(packed, int(num_steps), int(first_step))
        except BaseException:
            self._fail()
            raise

    def _collect(self, policy: bytes, num_steps: int, first_step: int) -> Rollout:
        self._freight.begin_collecting(policy, num_steps)
        replies = self._pool.exchange([collect_request(None, num_steps, first_step)] * self.num_workers)
        restarted = np.zeros(self.num_envs, np.bool_)
        if self._recovery is not None:
            for worker in self._recovery.lost(replies):
                restarted[self._rows[worker]] = True
            self._recovery.repeat(replies, None, lambda seeds: collect_request(seeds, num_steps, first_step))
        return replace(Rollout.join(self._freight.end_collecting()), restarted=restarted)

    def _forget(self) -> None:
        super()._forget()
        self._actors.freight = None  # which has the batch, too
        self.__dict__.pop("_freight", None)


class _Unpickler:
    """Makes columns of a reply, in which they are pickled."""

    def receive(self, message: bytes) -> Columns:
        return pickle.loads(message)


def _check_patience(value: Any) -> None:
    known = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not known or not 0 <= value < float("inf"):
        raise ValueError(f"scheduling_timeout must be a number of seconds of at least 0, got {value!r}.")


def _checked_cpus(value: Any) -> float:
    """Ray's rule for CPUs of an actor, but for 0, which would be no place at all."""
    known = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not known or not (0 < value <= 1 or (value > 1 and float(value).is_integer())):
        raise ValueError(
            f"num_cpus_per_worker must be a whole number of CPUs, or a fraction between 0 and 1, got {value!r}."
        )
    return float(value)


def _start(
    jobs: list[ActorJob], num_cpus: float, address: str | None, scheduling_timeout: float, timeout: float | None
) -> ActorPool:
    """Connect, reserve, and start the actors; nothing of that stays if it fails."""
    connection = connect(address)
    try:
        placement = Placement(len(jobs), num_cpus, scheduling_timeout)
        try:
            return ActorPool(jobs, connection, placement, timeout)
        except BaseException:
            placement.release()
            raise
    except BaseException:
        disconnect(connection)
        raise


def _release(pool: ActorPool, grace: float) -> Exception | None:
    try:
        return pool.shutdown(grace)
    finally:
        disconnect(pool.connection)
