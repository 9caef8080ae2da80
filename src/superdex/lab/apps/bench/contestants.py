"""Who takes part in `superdex bench --suite gymnasium-v5`, and how each gets to a steady state.

| contestant | is |
|---|---|
| `SceneVectorEnv` | ours, in the measuring process |
| `HybridVectorEnv` | ours, in as many worker processes as there are threads |
| `mujoco.batch` | MuJoCo's physics and nothing else, from the states of the `SceneVectorEnv`, under its controls |
| `EnvPool` | the same tasks in C++, on the MuJoCo that EnvPool is built with |
| `AsyncVectorEnv`, `SyncVectorEnv` | Gymnasium's own classes in Gymnasium's own vectorizers |

All take random actions and reset an environment in the step after its episode ended.
Before anything is timed, episodes get different ages, as they have after a long
time: ours and Gymnasium's any age up to the limit. EnvPool's cannot be set; its
environments are reset at different times of the warm-up instead.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from time import sleep
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from superdex.lab.apps.bench.laps import Lap
from superdex.lab.apps.bench.measuring import PAUSE, Actions, Contestant, Plan, Runner
from superdex.lab.apps.bench.raw_loop import RawLoop
from superdex.lab.apps.tasks import Task
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv

__all__ = [
    "ASYNC",
    "ENVPOOL",
    "HYBRID",
    "MODULES",
    "OURS",
    "RAW",
    "SYNC",
    "Match",
    "enter",
    "envpool_version",
]

OURS, HYBRID, RAW, ENVPOOL = "SceneVectorEnv", "HybridVectorEnv", "mujoco.batch", "EnvPool"
ASYNC, SYNC = "AsyncVectorEnv", "SyncVectorEnv"

MODULES = {ENVPOOL: "envpool", ASYNC: "imageio", SYNC: "imageio"}
"""Modules of the extra "bench" that contestants need; Gymnasium's MuJoCo tasks import imageio."""

_AT_MOST = {ASYNC: 8, SYNC: 100}
"""Environments: an `AsyncVectorEnv` takes a process for each, a `SyncVectorEnv` steps one after another."""


@dataclass(frozen=True)
class Match:
    """What contestants are compared in."""

    task: Task
    """Of the suite."""
    num_envs: int
    num_threads: int
    """Of each contestant, or its worker processes."""

    @property
    def original_id(self) -> str:
        """The id that Gymnasium and EnvPool know the task by, as "Ant-v5"."""
        return self.task.task_id.partition("/Gymnasium")[2]

    @property
    def contestants(self) -> tuple[str, ...]:
        """Who can take part: several processes are of use only with several threads."""
        hybrid = (HYBRID,) if self.num_threads > 1 and self.num_envs % self.num_threads == 0 else ()
        several = (ASYNC,) if self.num_threads > 1 else ()
        return (OURS, *hybrid, RAW, ENVPOOL, *several, SYNC)

    def size(self, contestant: str) -> int:
        """How many environments a contestant steps."""
        return min(self.num_envs, _AT_MOST.get(contestant, self.num_envs))

    def ages(self, count: int, plan: Plan) -> NDArray[np.int64]:
        """(count,) control steps that episodes have made, anything up to the limit."""
        limit = gymnasium.spec(self.original_id).max_episode_steps
        return np.random.default_rng(plan.seed).integers(0, limit, count)

    def __str__(self) -> str:
        return f"{self.original_id}, {self.num_envs} environments, {self.num_threads} threads"


def envpool_version() -> str:
    """EnvPool's version, and that of the MuJoCo in it, for people to read."""
    import envpool

    library = ctypes.CDLL(importlib.import_module("envpool.mujoco.mujoco_gym_envpool").__file__)
    library.mj_versionString.restype = ctypes.c_char_p
    return f"{envpool.__version__}, with MuJoCo {library.mj_versionString().decode()}"


def enter(match: Match, names: tuple[str, ...], plan: Plan, stack: ExitStack) -> dict[str, Contestant]:
    """The contestants of these names, warmed up; `stack` closes them.

    `mujoco.batch` comes after `SceneVectorEnv`, here as in every turn: it repeats what that has just done.
    """
    entered: dict[str, Contestant] = {}
    for name in names:
        if name in (OURS, HYBRID):
            entered[name] = _enter_ours(match, name, plan, stack)
        elif name == RAW:
            ours = entered[OURS]
            assert isinstance(ours, _Recorded)
            entered[name] = _Replayed(ours)
        elif name == ENVPOOL:
            pool = _Pool(match, plan)
            stack.callback(pool.close)
            entered[name] = Runner(pool, replace(plan, warmup_steps=0), pool.warm_up)  # type: ignore[arg-type]
        else:
            entered[name] = _enter_gymnasium(match, name, plan, stack)
    return entered


def _enter_ours(match: Match, name: str, plan: Plan, stack: ExitStack) -> Runner:
    factories = match.task.factories(match.num_envs)

    def spread() -> None:
        state = env.capture_state()
        for section in state.sections:
            section.arrays["episode_steps"][:] = match.ages(len(section.environments), plan)
        env.restore_state(state)

    if name == OURS:
        env = stack.enter_context(SceneVectorEnv(factories, num_threads=match.num_threads))
        return _Recorded(env, match.num_threads, plan, spread)
    env = stack.enter_context(HybridVectorEnv(factories, match.num_envs // match.num_threads))
    return Runner(env, plan, spread)


def _enter_gymnasium(match: Match, name: str, plan: Plan, stack: ExitStack) -> Runner:
    factories = [partial(_original, match.original_id)] * match.size(name)
    env = SyncVectorEnv(factories) if name == SYNC else AsyncVectorEnv(factories, context="spawn")
    stack.callback(env.close)
    # the counter of Gymnasium's TimeLimit, around each environment
    return Runner(env, plan, lambda: env.set_attr("_elapsed_steps", match.ages(env.num_envs, plan).tolist()))


def _original(task_id: str) -> gymnasium.Env:
    """Gymnasium's environment. MuJoCo warns of its XML files on the terminal and in a log: that is not ours to mend."""
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        return gymnasium.make(task_id)
    finally:
        mujoco.set_mju_user_warning(None)


class _Recorded(Runner):
    """Ours, with notes of where the physics of each timed step started from."""

    raw: RawLoop | None = None

    def __init__(self, env: SceneVectorEnv, num_threads: int, plan: Plan, after_reset: Callable[[], object]) -> None:
        super().__init__(env, plan, after_reset)
        self.raw = RawLoop(env, num_threads)
        self.raw.record(self.draw(1))  # from here on it knows whose episode has ended

    def run(self, num_steps: int) -> Lap:
        """Time that many steps, without the notes taken between them."""
        if self.raw is None:
            return super().run(num_steps)  # warming up
        actions = self.draw(num_steps)
        sleep(PAUSE)
        self.raw.record(actions)  # drops the results, as for the others
        return Lap(num_steps * self.env.num_envs, self.raw.seconds_of_env)


class _Replayed:
    """The physics of the block of steps that ours has just done."""

    def __init__(self, ours: _Recorded) -> None:
        assert ours.raw is not None
        self._raw = ours.raw
        self._num_envs = ours.env.num_envs

    def run(self, num_steps: int) -> Lap:
        """Time that block, which sets the number of steps.

        Raises:
            RuntimeError: if that block was timed before, in which case ours has yet to do the one of this turn;
                or if the physics leads elsewhere than it led ours.
        """
        if self._raw.num_replays:
            raise RuntimeError("The raw loop has repeated this block already: ours goes first in every turn.")
        sleep(PAUSE)
        seconds = self._raw.replay()
        if not self._raw.has_followed():
            raise RuntimeError("The raw loop's physics differs from the environments'. Nothing measured here counts.")
        return Lap(self._raw.num_recorded * self._num_envs, seconds)


class _Pool:
    """EnvPool's environments as a `Runner` takes them."""

    def __init__(self, match: Match, plan: Plan) -> None:
        import envpool

        self.num_envs = match.num_envs
        self._warmup_steps = plan.warmup_steps
        sizes = {"num_envs": match.num_envs, "num_threads": match.num_threads}
        self._pool: Any = envpool.make(match.original_id, env_type="gymnasium", seed=plan.seed, **sizes)
        self._actions = Actions(self.action_space, plan.seed)
        self.step = self._pool.step
        self.close = self._pool.close

    @property
    def action_space(self) -> Box:
        """(num_envs, ...) the actions of all."""
        return batch_space(self._pool.action_space, self.num_envs)  # type: ignore[return-value]

    def reset(self, seed: int) -> None:
        """Begin; the seed was fixed at construction."""
        self._pool.reset()

    def warm_up(self) -> None:
        """Take as many steps as the plan says, resetting in each other environments."""
        for step in range(self._warmup_steps):
            self.step(self._actions.draw())
            some = np.arange(step, self.num_envs, self._warmup_steps, dtype=np.int32)
            if some.size:
                self._pool.reset(some)
