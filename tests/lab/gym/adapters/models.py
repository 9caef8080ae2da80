"""Small trainings for the tests."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.logger import Logger

from superdex.lab.gym.adapters.ppo import BatchPPO
from superdex.lab.gym.adapters.sb3 import Sb3VecEnv
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv

__all__ = ["make_adapter", "make_ppo"]


def make_adapter(task: type[MochiEnv], num_envs: int, normalize: bool = False, **fields: Any) -> Sb3VecEnv:
    """Environments on one thread, so that tests beside each other stay quick."""
    envs = SceneVectorEnv(task, num_envs=num_envs, num_threads=1, autoreset_mode="SameStep", **fields)
    return Sb3VecEnv(envs, normalize_observations=normalize)


def make_ppo(adapter: Sb3VecEnv, kind: type = BatchPPO, **arguments: Any) -> Any:
    """A PPO of that kind, which logs nowhere."""
    arguments = {"n_steps": 16, "n_epochs": 2, "seed": 0, "device": "cpu", **arguments}
    arguments.setdefault("batch_size", arguments["n_steps"] * adapter.num_envs // 2)
    arguments.setdefault("policy_kwargs", {"net_arch": [16, 16], "activation_fn": torch.nn.Tanh})
    model = kind("MlpPolicy", adapter, **arguments)
    model.set_logger(Logger(None, []))
    return model
