"""The public names of the vector environments."""

from gymnasium.vector import AutoresetMode

from superdex.lab.gym.vector.errors import RestartUntoldError, SharedMemoryError, WorkerError, WorkerTimeoutError
from superdex.lab.gym.vector.hybrid import HybridVectorEnv
from superdex.lab.gym.vector.scene_vector_env import SceneVectorEnv
from superdex.lab.gym.vector.step_result import BatchedStepResult

__all__ = [
    "AutoresetMode",
    "BatchedStepResult",
    "HybridVectorEnv",
    "RestartUntoldError",
    "SceneVectorEnv",
    "SharedMemoryError",
    "WorkerError",
    "WorkerTimeoutError",
]
