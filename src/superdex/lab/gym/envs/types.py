"""Type aliases of the environment layer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Mask", "StructuredArrays", "Terminate", "Truncate"]

StructuredArrays = dict[str, NDArray[Any]]
"""Arrays by key, each (N, *shape): a structured observation or action, infos, or reward terms (N,)."""

Mask = NDArray[np.bool_]
"""(N,) which environments."""


class Terminate(NamedTuple):
    """Ends the episodes in `mask`, with no value after the end (the task is won or lost)."""

    mask: Mask
    reason: str


class Truncate(NamedTuple):
    """Ends the episodes in `mask` from outside the task (a limit): a learner bootstraps from the last state."""

    mask: Mask
    reason: str
