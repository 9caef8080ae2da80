"""The benchmark tasks: one class, one configuration and one MJCF file each."""

from superdex.lab.gym.envs.benchmarks.ant_env import AntCfg, AntEnv
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleCfg, CartPoleEnv
from superdex.lab.gym.envs.benchmarks.halfcheetah_env import HalfCheetahCfg, HalfCheetahEnv

__all__ = ["AntCfg", "AntEnv", "CartPoleCfg", "CartPoleEnv", "HalfCheetahCfg", "HalfCheetahEnv"]
