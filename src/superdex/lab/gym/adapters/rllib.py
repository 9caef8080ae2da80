"""A vector environment as RLlib's environment runners take it.

    def make(num_envs):
        return SceneVectorEnv(AntEnv, num_envs=num_envs)

    config = (
        PPOConfig()
        .environment(rllib_env(make))
        .env_runners(gym_env_vectorize_mode="vector_entry_point", num_envs_per_env_runner=256)
    )

RLlib drops the step that follows an episode's end, as NEXT_STEP autoreset has it, and
asks nobody whether that is so. On SAME_STEP it would learn from transitions that
mix two episodes, without a word. It also keeps the arrays that `step` returns. So
`rllib_env` refuses environments in any other mode, and those made with `copy=False`.

This module does not import RLlib, whose releases pin a Gymnasium of their own:
`pip install "ray[rllib]"` belongs in a virtual environment apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gymnasium.vector import AutoresetMode

from superdex.lab.gym.vector.base import BatchedVectorEnv

__all__ = ["rllib_env"]


def rllib_env(make: Callable[[int], BatchedVectorEnv]) -> Callable[[Mapping[str, Any]], BatchedVectorEnv]:
    """What `AlgorithmConfig.environment` takes: a function of RLlib's `EnvContext`.

    Args:
        make: a function of the number of environments, called in each environment runner; it travels by cloudpickle.

    The function raises ValueError, before RLlib has sampled anything, unless it is called with
    `gym_env_vectorize_mode="vector_entry_point"` and `make` gives environments that RLlib can learn from.
    """

    def create(context: Mapping[str, Any]) -> BatchedVectorEnv:
        num_envs = context.get("num_envs")
        if num_envs is None:
            raise ValueError(
                "RLlib asked for single environments, but this is a vector environment. "
                'Set config.env_runners(gym_env_vectorize_mode="vector_entry_point").'
            )
        envs = make(num_envs)
        try:
            _require_fit(envs)
        except ValueError:
            envs.close()
            raise
        return envs

    return create


def _require_fit(envs: BatchedVectorEnv) -> None:
    if envs.autoreset_mode is not AutoresetMode.NEXT_STEP:
        raise ValueError(
            "RLlib drops the step after an episode's end, which is right in NEXT_STEP mode only, got "
            f"{envs.autoreset_mode}. Make the environments with autoreset_mode=AutoresetMode.NEXT_STEP."
        )
    if not envs.copy:
        raise ValueError("RLlib keeps the arrays that step() returns, but these environments reuse theirs: copy=False.")
