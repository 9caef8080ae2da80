"""What `gymnasium.make_vec` calls for each registered task: its class as a native batch in this process."""

from __future__ import annotations

from functools import partial

from superdex.lab.gym.envs import benchmarks, gymnasium_v5
from superdex.lab.gym.vector.scene_vector_env import SceneVectorEnv

__all__ = [
    "AntEnv",
    "AntV5Env",
    "CartPoleEnv",
    "HalfCheetahEnv",
    "HalfCheetahV5Env",
    "HopperV5Env",
    "HumanoidStandupV5Env",
    "HumanoidV5Env",
    "InvertedDoublePendulumV5Env",
    "InvertedPendulumV5Env",
    "PusherV5Env",
    "ReacherV5Env",
    "SwimmerV5Env",
    "Walker2dV5Env",
]

AntEnv = partial(SceneVectorEnv, benchmarks.AntEnv)
CartPoleEnv = partial(SceneVectorEnv, benchmarks.CartPoleEnv)
HalfCheetahEnv = partial(SceneVectorEnv, benchmarks.HalfCheetahEnv)
AntV5Env = partial(SceneVectorEnv, gymnasium_v5.AntV5Env)
HalfCheetahV5Env = partial(SceneVectorEnv, gymnasium_v5.HalfCheetahV5Env)
HopperV5Env = partial(SceneVectorEnv, gymnasium_v5.HopperV5Env)
HumanoidV5Env = partial(SceneVectorEnv, gymnasium_v5.HumanoidV5Env)
HumanoidStandupV5Env = partial(SceneVectorEnv, gymnasium_v5.HumanoidStandupV5Env)
InvertedDoublePendulumV5Env = partial(SceneVectorEnv, gymnasium_v5.InvertedDoublePendulumV5Env)
InvertedPendulumV5Env = partial(SceneVectorEnv, gymnasium_v5.InvertedPendulumV5Env)
PusherV5Env = partial(SceneVectorEnv, gymnasium_v5.PusherV5Env)
ReacherV5Env = partial(SceneVectorEnv, gymnasium_v5.ReacherV5Env)
SwimmerV5Env = partial(SceneVectorEnv, gymnasium_v5.SwimmerV5Env)
Walker2dV5Env = partial(SceneVectorEnv, gymnasium_v5.Walker2dV5Env)
