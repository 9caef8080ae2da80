"""Environments: the base class of tasks, its configuration and its scenes."""

from superdex.lab.gym.envs.config import MochiEnvCfg, TaskCfg
from superdex.lab.gym.envs.env_state import EnvState
from superdex.lab.gym.envs.mochi_env import MochiEnv
from superdex.lab.gym.envs.scene_manager import SceneManager
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import Mask, StructuredArrays, Terminate, Truncate
from superdex.physics import Rows

__all__ = [
    "EnvState",
    "Mask",
    "MochiEnv",
    "MochiEnvCfg",
    "Rows",
    "SceneManager",
    "Sim",
    "StructuredArrays",
    "TaskCfg",
    "Terminate",
    "Truncate",
]
