"""Environments on a cluster, by Ray; needs the extra "ray"."""

try:
    import ray  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "ray":
        raise
    raise ModuleNotFoundError(
        'superdex.lab.gym.distributed needs Ray, which is not installed: pip install "superdex-gym[ray]"', name="ray"
    ) from error

from superdex.lab.gym.distributed.placement import PlacementError
from superdex.lab.gym.distributed.ray_vector_env import RayVectorEnv

__all__ = ["PlacementError", "RayVectorEnv"]
