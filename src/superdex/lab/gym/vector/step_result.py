"""What a step of a vector environment returns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["BatchedStepResult"]


class BatchedStepResult(NamedTuple):
    """What `step` returns: Gymnasium's five values, with names."""

    observation: np.ndarray
    """(num_envs, *observation_shape), dtype of the observation space."""
    reward: NDArray[np.float64]
    """(num_envs,)"""
    terminated: NDArray[np.bool_]
    """(num_envs,): the task ended the episode."""
    truncated: NDArray[np.bool_]
    """(num_envs,): a limit ended the episode."""
    info: dict[str, Any]
    """Arrays by kind of information, each indexed by environment, with a mask under `_key`."""
