"""What RLlib's PPO learns through `rllib_env`, and that it does not start on other environments; prints JSON.

A script, since RLlib wants processes of its own.
"""

from __future__ import annotations

import json

import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner import Learner
from ray.tune.registry import register_env

from superdex.lab.gym.adapters.rllib import rllib_env
from superdex.lab.gym.utils.vector import SceneVectorEnv
from tests.guests.running import CutEnv, load

STATES = torch.tensor([[0.0], [1.0]])


def learned_values() -> list[float]:
    """The values of observations 0 and 1 after training on `CutEnv` with gamma 0.9."""
    example = load("rllib_ppo")
    example.GAMMA, example.CartPoleEnv = 0.9, CutEnv  # type: ignore[attr-defined]
    algorithm = example.main(num_envs=16, iterations=32)
    (values,) = algorithm.learner_group.foreach_learner(critic_values)
    algorithm.stop()
    return values.get()


def critic_values(learner: Learner) -> list[float]:
    with torch.no_grad():
        return learner.module[DEFAULT_MODULE_ID].compute_values({"obs": STATES}).flatten().tolist()


def refusal(num_env_runners: int, vectorize_mode: str, autoreset_mode: str) -> str:
    """What RLlib says when it is given environments in that mode."""

    def make_envs(num_envs: int) -> SceneVectorEnv:
        return SceneVectorEnv(CutEnv, num_envs=num_envs, autoreset_mode=autoreset_mode)

    register_env("refused", rllib_env(make_envs))
    config = PPOConfig().environment("refused")
    config.env_runners(
        num_env_runners=num_env_runners, num_envs_per_env_runner=2, gym_env_vectorize_mode=vectorize_mode
    )
    try:
        config.build_algo()
    except Exception as error:
        return str(error)
    return "nothing"


if __name__ == "__main__":
    print(
        json.dumps(
            {
                "values": learned_values(),
                "here": refusal(0, "vector_entry_point", "SameStep"),
                "in a runner": refusal(1, "vector_entry_point", "SameStep"),
                "one by one": refusal(0, "sync", "NextStep"),
            }
        )
    )
