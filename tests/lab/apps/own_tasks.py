"""Tasks and ids such as a user has: a module that knows nothing of the apps, and breaks where it is told to."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import gymnasium

from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleCfg, CartPoleEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv

SMALL = {"num_envs": 8, "n_steps": 16, "n_minibatches": 2, "n_epochs": 1, "hidden_sizes": (8,), "total_steps": 256}


@dataclass(frozen=True, kw_only=True)
class OwnCfg(CartPoleCfg):
    broken: str = ""
    """What goes wrong."""


class OwnEnv(CartPoleEnv):
    Cfg = OwnCfg
    hyperparameters: ClassVar = {**SMALL, "gamma": 0.9}
    task_state: ClassVar = {"steps": ()}

    def _build_model(self):
        return self.no_such_method() if self.cfg.broken == "model" else super()._build_model()

    def _apply_action(self, sim, action):
        super()._apply_action(sim, action)
        sim.task["steps"] += 1
        if self.cfg.broken == "late" and sim.task["steps"].max() > SMALL["n_steps"]:
            sim.body("no such body")

    def _compute_reward_terms(self, action, observation, info):
        if self.cfg.broken == "shape":
            return {"upright": observation["vertical_ang"]}
        if self.cfg.broken == "reward":
            try:
                helper()
            except ZeroDivisionError as error:
                raise OwnError("no reward today") from error
        return super()._compute_reward_terms(action, observation, info)


class HastyEnv(OwnEnv):
    hyperparameters: ClassVar = {**OwnEnv.hyperparameters, "gama": 0.9}


class WrongEnv(OwnEnv):
    hyperparameters: ClassVar = {**OwnEnv.hyperparameters, "gamma": 1.1}


@dataclass(frozen=True, kw_only=True)
class UnfitCfg(CartPoleCfg):
    control_frequency: float = 30
    simulation_frequency: float = 100


class UnfitEnv(CartPoleEnv):
    """Cannot be made with the defaults of its configuration."""

    Cfg = UnfitCfg


class AloneEnv(CartPoleEnv):
    """Cannot be part of a native batch."""

    vectorized = False


class BlindEnv(CartPoleEnv):
    """Is seen from a camera that its model lacks."""

    view = "nope"


class BareEnv(MochiEnv):
    """Lacks all hooks."""


class OwnError(Exception):
    pass


def helper():
    return 1 / 0


gymnasium.register("own/Cart-v0", OwnEnv, vector_entry_point=functools.partial(SceneVectorEnv, OwnEnv))
gymnasium.register("own/Cart-v3", f"{__name__}:OwnEnv", kwargs={"steps_per_episode": 7})
gymnasium.register("own/Made-v0", lambda: OwnEnv(), vector_entry_point=functools.partial(SceneVectorEnv, OwnEnv))
gymnasium.register("HastyEnv", OwnEnv)
gymnasium.register("own/Lambda-v0", lambda: OwnEnv())
gymnasium.register("own/Wrapped-v0", OwnEnv, max_episode_steps=7)
gymnasium.register("own/Unfit-v0", UnfitEnv)
gymnasium.register("own/Typo-v0", OwnEnv, kwargs={"steps_per_epsiode": 7})
