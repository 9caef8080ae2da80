"""The public names of the vector environments."""

from gymnasium.vector import AutoresetMode

from superdex.lab.gym.vector.base import BatchedStepResult
from superdex.lab.gym.vector.errors import SharedMemoryError, WorkerError, WorkerTimeoutError
from superdex.lab.gym.vector.hybrid import HybridVectorEnv
from superdex.lab.gym.vector.scene_vector_env import SceneVectorEnv

__all__ = [
    "AutoresetMode",
    "BatchedStepResult",
    "HybridVectorEnv",
    "SceneVectorEnv",
    "SharedMemoryError",
    "WorkerError",
    "WorkerTimeoutError",
]
