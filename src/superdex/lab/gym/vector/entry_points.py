"""What `gymnasium.make_vec` calls for each benchmark task: its class as a native batch in this process."""

from __future__ import annotations

from functools import partial

from superdex.lab.gym.envs import benchmarks
from superdex.lab.gym.vector.scene_vector_env import SceneVectorEnv

__all__ = ["AntEnv", "CartPoleEnv", "HalfCheetahEnv"]

AntEnv = partial(SceneVectorEnv, benchmarks.AntEnv)
CartPoleEnv = partial(SceneVectorEnv, benchmarks.CartPoleEnv)
HalfCheetahEnv = partial(SceneVectorEnv, benchmarks.HalfCheetahEnv)
