"""Scenes and their simulations on MuJoCo; knows nothing of reinforcement learning."""

from superdex.physics.actors import Actor, ArticulatedActor, RigidActor, RomActor
from superdex.physics.prefab import FileCacheStats, clear_file_cache, enable_file_cache, file_cache_stats, load_model
from superdex.physics.scene import Scene
from superdex.physics.scene_batch import Rows, SceneBatch
from superdex.physics.state import StateHandle
from superdex.physics.wrenches import compute_wrenches

__all__ = [
    "Actor",
    "ArticulatedActor",
    "FileCacheStats",
    "RigidActor",
    "RomActor",
    "Rows",
    "Scene",
    "SceneBatch",
    "StateHandle",
    "clear_file_cache",
    "compute_wrenches",
    "enable_file_cache",
    "file_cache_stats",
    "load_model",
]
