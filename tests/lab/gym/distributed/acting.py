"""Policies and actions for tests of environments on a cluster. Actors import this module too."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayActorError

from superdex.lab.gym.distributed import RayVectorEnv
from superdex.lab.gym.vector.base import BatchedVectorEnv

__all__ = ["FailingPolicy", "MurderousPolicy", "RowPolicy", "actions", "kill", "steps"]


def actions(env: BatchedVectorEnv, step: int) -> np.ndarray:
    """The same for all environments of so many, whatever steps them."""
    return np.random.default_rng(step).uniform(-1, 1, env.action_space.shape).astype(np.float32)


def steps(env: BatchedVectorEnv, first: int, last: int) -> list[Any]:
    return [tuple(env.step(actions(env, step))) for step in range(first, last)]


def kill(env: RayVectorEnv, worker: int) -> None:
    """End an actor as if its process had crashed, and wait until it has: it may do a little more after `ray.kill`."""
    actor = env._actors._actors[worker]
    ray.kill(actor)
    with suppress(RayActorError):
        while True:
            ray.get(actor.greet.remote(), timeout=60)


class RowPolicy:
    """Each action is a function of its row, the step and the environment, by elementwise operations alone."""

    def __init__(self, gain: float, num_actions: int = 1) -> None:
        self.gain = np.float32(gain)
        self.num_actions = num_actions

    def __call__(self, observation: np.ndarray, step: int, environments: slice) -> np.ndarray:
        rows = np.arange(environments.start, environments.stop, dtype=np.float32)
        values = np.sin(self.gain * observation[:, 0].astype(np.float32) + rows + np.float32(step))
        return np.repeat(values[:, None], self.num_actions, axis=1)


class MurderousPolicy(RowPolicy):
    """Kills the process that steps environment `since` in control step 5, if `marker` is not there, which it leaves."""

    def __init__(self, gain: float, marker: Path, since: int) -> None:
        super().__init__(gain)
        self.marker, self.since = str(marker), since

    def __call__(self, observation: np.ndarray, step: int, environments: slice) -> np.ndarray:
        if step == 5 and environments.start == self.since and not os.path.exists(self.marker):
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(observation, step, environments)


class FailingPolicy:
    """Cannot act."""

    def __call__(self, observation: np.ndarray, step: int, environments: slice) -> np.ndarray:
        raise LookupError(f"no action for environment {environments.start}")
