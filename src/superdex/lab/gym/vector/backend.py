"""The seam between autoreset and what steps the environments.

A `Backend` steps `num_envs` environments that live in this process. It is told
which rows to step or reset and writes what they produce straight into those rows
of the caller's arrays (which may lie in shared memory); infos come back as
columns (`superdex.lab.gym.vector.infos`).

Rows are given one way everywhere: None for all, or a sorted int64 array of
indices below `num_envs`. Actions and buffers always have `num_envs` rows,
whatever rows are in play.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from superdex.lab.gym.envs.env_state import Section, SectionKey
from superdex.lab.gym.vector.columns import Columns
from superdex.physics import Rows

__all__ = ["Backend", "InnerBackend", "StepBuffers"]


@dataclass(frozen=True, slots=True)
class StepBuffers:
    """Where a step's results are written; views that the caller owns."""

    observation: np.ndarray
    """(num_envs, *observation_shape), dtype of the observation space."""
    reward: NDArray[np.float64]
    """(num_envs,)"""
    terminated: NDArray[np.bool_]
    """(num_envs,)"""
    truncated: NDArray[np.bool_]
    """(num_envs,)"""

    @classmethod
    def allocate(cls, observation_space: Box, num_envs: int) -> Self:
        """Buffers of this process for observations of the batched space."""
        return cls(
            np.zeros(observation_space.shape, observation_space.dtype),
            np.zeros(num_envs),
            np.zeros(num_envs, np.bool_),
            np.zeros(num_envs, np.bool_),
        )


@dataclass(frozen=True, slots=True)
class InnerBackend:
    """How some environments of a vector environment are stepped, and why."""

    kind: str
    """"native" (one call steps them all) or "sequential" (one after another)."""
    environments: tuple[int, ...]
    """Their global indices."""
    reason: str


class Backend(Protocol):
    """Steps the environments of one process."""

    @property
    def num_envs(self) -> int:
        """How many environments it steps."""
        ...

    @property
    def envs(self) -> Sequence[gymnasium.Env]:
        """The environments, one per row, as their factories made them."""
        ...

    @property
    def distinct(self) -> Sequence[int]:
        """Rows of environments whose spaces may differ: one of each native batch, all others."""
        ...

    def reset(
        self,
        rows: Rows,
        seeds: Sequence[int | None] | None,
        options: dict[str, Any] | None,
        observation: np.ndarray,
    ) -> Columns:
        """Reset `rows`; `seeds` has one entry per row in play, None leaves every generator as is."""
        ...

    def step(self, rows: Rows, actions: np.ndarray, out: StepBuffers) -> Columns:
        """Step `rows` with their rows of `actions` and write their results to `out`.

        The other rows must be reset next: what is in their rows of `out` until then is undefined.
        """
        ...

    def final_observations(self, rows: NDArray[np.int64], observation: np.ndarray) -> np.ndarray | list[Any]:
        """Copies of the last observations of `rows`, taken before they are reset."""
        ...

    def state_keys(self) -> list[SectionKey]:
        """What each environment must share with another to continue from its state.

        Raises:
            TypeError: if an environment's state cannot be captured; the message says which and why.
        """
        ...

    def capture(self) -> list[Section]:
        """The states of all environments, in sections of any number and order."""
        ...

    def restore(self, sections: Sequence[Section], observation: np.ndarray) -> None:
        """Continue from states that fit `state_keys`, one section for each key, and their last observations."""
        ...

    def close(self) -> None:
        """Close the environments."""
        ...
