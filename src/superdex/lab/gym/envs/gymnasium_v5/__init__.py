"""Gymnasium's MuJoCo v5 tasks as `MochiEnv`s, equal to the originals to the bit.

    env = AntV5Env(healthy_reward=0.5)                       # the keywords of gymnasium.make("Ant-v5", ...)
    envs = gymnasium.make_vec("superdex_gym/GymnasiumAnt-v5", num_envs=1000)

For the same seed and actions, observations, rewards, flags and every info of the
original are equal (`==`) to those of the installed Gymnasium's own class under its
`TimeLimit`. Ours come with more infos, and end an episode whose simulation diverges.
Pictures are taken from views of our own (`render_size`, `render_quality`, `render_camera`).
"""

from superdex.lab.gym.envs.gymnasium_v5.ant import AntV5Cfg, AntV5Env
from superdex.lab.gym.envs.gymnasium_v5.half_cheetah import HalfCheetahV5Cfg, HalfCheetahV5Env
from superdex.lab.gym.envs.gymnasium_v5.hopper import HopperV5Cfg, HopperV5Env
from superdex.lab.gym.envs.gymnasium_v5.humanoid import HumanoidV5Cfg, HumanoidV5Env
from superdex.lab.gym.envs.gymnasium_v5.humanoid_standup import HumanoidStandupV5Cfg, HumanoidStandupV5Env
from superdex.lab.gym.envs.gymnasium_v5.inverted_double_pendulum import (
    InvertedDoublePendulumV5Cfg,
    InvertedDoublePendulumV5Env,
)
from superdex.lab.gym.envs.gymnasium_v5.inverted_pendulum import InvertedPendulumV5Cfg, InvertedPendulumV5Env
from superdex.lab.gym.envs.gymnasium_v5.pusher import PusherV5Cfg, PusherV5Env
from superdex.lab.gym.envs.gymnasium_v5.reacher import ReacherV5Cfg, ReacherV5Env
from superdex.lab.gym.envs.gymnasium_v5.swimmer import SwimmerV5Cfg, SwimmerV5Env
from superdex.lab.gym.envs.gymnasium_v5.walker2d import Walker2dV5Cfg, Walker2dV5Env

__all__ = [
    "AntV5Cfg",
    "AntV5Env",
    "HalfCheetahV5Cfg",
    "HalfCheetahV5Env",
    "HopperV5Cfg",
    "HopperV5Env",
    "HumanoidStandupV5Cfg",
    "HumanoidStandupV5Env",
    "HumanoidV5Cfg",
    "HumanoidV5Env",
    "InvertedDoublePendulumV5Cfg",
    "InvertedDoublePendulumV5Env",
    "InvertedPendulumV5Cfg",
    "InvertedPendulumV5Env",
    "PusherV5Cfg",
    "PusherV5Env",
    "ReacherV5Cfg",
    "ReacherV5Env",
    "SwimmerV5Cfg",
    "SwimmerV5Env",
    "Walker2dV5Cfg",
    "Walker2dV5Env",
]
