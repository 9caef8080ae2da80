"""What travels with requests and replies, because actors share no memory with their caller."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray

from superdex.lab.gym.rollouts import Rollout
from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.requests import COLLECT, STEP

__all__ = ["Freight"]


class Freight:
    """The caller's side of a batch: what each worker gets a part of, and what becomes of the parts that it sends.

    Args:
        rows: the environments of each worker.
        actions: (num_envs, *action_shape), in which the caller puts what is to be done next.
        out: where results of resets and steps go.
    """

    def __init__(self, rows: list[slice], actions: np.ndarray, out: StepBuffers) -> None:
        self._rows = rows
        self._actions = actions
        self._out = out
        self._policy: ray.ObjectRef | None = None
        self._fragments: dict[int, Rollout] = {}
        self.num_steps = 1
        """How many control steps a COLLECT takes."""

    def begin_collecting(self, policy: bytes, num_steps: int) -> None:
        """From now on a COLLECT takes this policy along; Ray brings it once to each node."""
        self._policy, self.num_steps = ray.put(policy), num_steps
        self._fragments = {}

    def end_collecting(self) -> list[Rollout]:
        """The rollouts of all workers, in their order."""
        fragments = [self._fragments[worker] for worker in range(len(self._rows))]
        self._policy, self._fragments = None, {}
        return fragments

    def outgoing(self, worker: int, request: bytes) -> Any:
        """What goes to a worker with a request; an object of Ray's arrives as what it stands for."""
        if request[:1] == STEP:
            return self._actions[self._rows[worker]]
        return self._policy if request[:1] == COLLECT else None

    def incoming(self, worker: int, cargo: Any) -> None:
        """Put away what came with a worker's reply."""
        rows, out = self._rows[worker], self._out
        if isinstance(cargo, Rollout):
            self._fragments[worker] = cargo
            out.observation[rows] = cargo.last_observation
        elif isinstance(cargo, np.ndarray):
            out.observation[rows] = cargo
        elif cargo is not None:
            out.observation[rows], out.reward[rows], out.terminated[rows], out.truncated[rows] = cargo
