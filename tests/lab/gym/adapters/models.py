"""Small trainings for the tests."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from superdex.lab.gym.adapters.ppo import BatchPPO
from superdex.lab.gym.adapters.sb3 import Sb3VecEnv
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv

__all__ = [
    "FIELDS",
    "ITERATION",
    "NUM_ENVS",
    "NUM_STEPS",
    "Watcher",
    "assert_same_policy",
    "cartpoles",
    "make_adapter",
    "make_ppo",
    "train",
]

NUM_ENVS, NUM_STEPS = 6, 16
ITERATION = NUM_ENVS * NUM_STEPS
FIELDS = {"steps_per_episode": 11, "reset_noise_scale": 0.08}


def make_adapter(task: type[MochiEnv], num_envs: int, normalize: bool = False, **fields: Any) -> Sb3VecEnv:
    """Environments on one thread, so that tests beside each other stay quick."""
    envs = SceneVectorEnv(task, num_envs=num_envs, num_threads=1, autoreset_mode="SameStep", **fields)
    return Sb3VecEnv(envs, normalize_observations=normalize)


def make_ppo(adapter: Sb3VecEnv, kind: type = BatchPPO, logged: bool = False, **arguments: Any) -> Any:
    """A PPO of that kind, which logs nowhere unless it is to be `logged`."""
    arguments = {"n_steps": NUM_STEPS, "n_epochs": 2, "seed": 0, "device": "cpu", **arguments}
    arguments.setdefault("batch_size", arguments["n_steps"] * adapter.num_envs // 2)
    arguments.setdefault("policy_kwargs", {"net_arch": [16, 16], "activation_fn": torch.nn.Tanh})
    model = kind("MlpPolicy", adapter, **arguments)
    if not logged:
        model.set_logger(Logger(None, []))
    return model


def cartpoles(normalize: bool = False) -> Sb3VecEnv:
    """A few poles whose episodes end in both ways."""
    return make_adapter(CartPoleEnv, NUM_ENVS, normalize, **FIELDS)


def assert_same_policy(one: BatchPPO, other: BatchPPO) -> None:
    """All parameters are equal to the bit."""
    state = other.policy.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in one.policy.state_dict().items())


def train(model: BatchPPO, until: int) -> None:
    """Until an iteration, of six."""
    for iteration in model.iterations(6 * ITERATION):
        if iteration == until:
            break


class Watcher(BaseCallback):
    """Counts calls and stops after some."""

    def __init__(self, stop_after: int) -> None:
        super().__init__()
        self.stop_after = stop_after
        self.timesteps: list[int] = []
        self.rewards = 0.0

    def _on_step(self) -> bool:
        self.timesteps.append(self.num_timesteps)
        self.rewards += float(self.locals["rewards"].sum())
        return self.n_calls < self.stop_after
