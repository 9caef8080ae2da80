"""The environments of a training run, stepped as its configuration says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gymnasium.vector import AutoresetMode

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.train.config import TrainConfig
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv
from superdex.lab.gym.vector.base import BatchedVectorEnv

__all__ = ["make_environments"]

_MODE = AutoresetMode.SAME_STEP
_PATIENCE = 300.0
"""[s] within which a worker must answer any one call: far more than a step or the making of environments takes."""


def make_environments(config: TrainConfig) -> BatchedVectorEnv:
    """The batch, not reset yet: in this process, in worker processes, or in Ray actors; the numbers are the same.

    A worker that dies, or does not answer for five minutes, is replaced, and its episodes are truncated, so that
    training goes on.

    Raises:
        UserError: if there is no Ray cluster at the address, or no room on it.
    """
    num_envs, stepping = config.recipe.num_envs, config.stepping
    factories = config.task.factories(num_envs)
    if stepping.num_workers == 0:
        return SceneVectorEnv(factories, num_threads=stepping.num_threads, autoreset_mode=_MODE)
    if stepping.ray:
        return _on_ray(config, factories)
    return HybridVectorEnv(
        factories,
        num_envs // stepping.num_workers,
        autoreset_mode=_MODE,
        num_threads_per_worker=stepping.num_threads_per_worker,
        worker_timeout=_PATIENCE,
        on_worker_failure="restart",
    )


def _on_ray(config: TrainConfig, factories: Sequence[Callable[[], MochiEnv]]) -> BatchedVectorEnv:
    from superdex.lab.gym.distributed import PlacementError, RayVectorEnv

    stepping = config.stepping
    try:
        return RayVectorEnv(
            factories,
            len(factories) // stepping.num_workers,
            autoreset_mode=_MODE,
            num_threads_per_worker=stepping.num_threads_per_worker,
            address=stepping.ray_address,
            worker_timeout=_PATIENCE,
            on_worker_failure="restart",
        )
    except (ConnectionError, PlacementError) as error:
        raise UserError(f"--ray: {error}") from error
