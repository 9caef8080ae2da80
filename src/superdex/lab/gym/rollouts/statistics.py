"""Returns and lengths of finished episodes, each counted once.

An episode that was lost with the worker that played it is none of them, wherever its
environment was: it says nothing about the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from superdex.lab.gym.rollouts.rollout import Rollout

__all__ = ["EpisodeStatistics", "FinishedEpisodes"]


class FinishedEpisodes(NamedTuple):
    """Episodes in the order in which they ended: by step, then by environment."""

    returns: NDArray[np.float64]
    """(k,): sum of the episode's rewards."""
    lengths: NDArray[np.int64]
    """(k,): its steps."""


class EpisodeStatistics:
    """Follows the episodes of `num_envs` environments across rollouts.

    Means are over the last `window` episodes that ended. Early in training these are the short
    ones, because the long ones still run: for an unbiased figure let all environments play
    the same number of episodes (`superdex play` does).
    """

    def __init__(self, num_envs: int, window: int = 1000) -> None:
        self.window = window
        self.num_episodes = 0
        """Episodes that ended so far."""
        self.recent_returns: NDArray[np.float64] = np.empty(0)
        """(at most window,): of the last episodes that ended, the latest last."""
        self.recent_lengths: NDArray[np.int64] = np.empty(0, np.int64)
        """(at most window,): their steps."""
        self._returns: NDArray[np.float64] = np.zeros(num_envs)
        self._lengths: NDArray[np.int64] = np.zeros(num_envs, np.int64)

    @property
    def mean_return(self) -> float:
        """Of the last episodes that ended; NaN if none has."""
        return float(self.recent_returns.mean()) if self.recent_returns.size else float("nan")

    @property
    def mean_length(self) -> float:
        """Steps, of the last episodes that ended; NaN if none has."""
        return float(self.recent_lengths.mean()) if self.recent_lengths.size else float("nan")

    @property
    def longest_running(self) -> int:
        """Steps so far of the longest among the episodes that still run, one in each environment."""
        return int(self._lengths.max())

    def update(self, rollout: Rollout) -> FinishedEpisodes:
        """Take in the next rollout of these environments; returns the episodes that ended in it."""
        self.forget_running(rollout.restarted)
        ended = rollout.terminated | rollout.truncated
        lost = np.zeros_like(ended)
        lost[rollout.final_steps, rollout.final_environments] = rollout.final_lost
        parts = [self.step(*columns) for columns in zip(rollout.rewards, ended, lost, strict=True)]
        return FinishedEpisodes(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def step(
        self, rewards: np.ndarray, ended: NDArray[np.bool_], lost: NDArray[np.bool_] | None = None
    ) -> FinishedEpisodes:
        """Take in one step: rewards and ends (num_envs,); returns the episodes that ended in it.

        Those that are `lost` (num_envs,) begin anew, and do not count.
        """
        self._returns += rewards
        self._lengths += 1
        if lost is not None:
            self.forget_running(lost)
            ended = ended & ~lost
        finished = FinishedEpisodes(self._returns[ended], self._lengths[ended])
        if finished.returns.size:
            self._returns[ended] = 0
            self._lengths[ended] = 0
            self.num_episodes += finished.returns.size
            self.recent_returns = np.concatenate([self.recent_returns, finished.returns])[-self.window :]
            self.recent_lengths = np.concatenate([self.recent_lengths, finished.lengths])[-self.window :]
        return finished

    def forget_running(self, environments: NDArray[np.bool_] | None = None) -> None:
        """Begin the episodes of all environments anew, or of those in a mask; what ended stays counted."""
        rows = slice(None) if environments is None else environments
        self._returns[rows] = 0
        self._lengths[rows] = 0

    def state(self) -> dict[str, np.ndarray]:
        """Everything that decides its future, as arrays."""
        return {
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "recent_returns": self.recent_returns.copy(),
            "recent_lengths": self.recent_lengths.copy(),
            "num_episodes": np.array(self.num_episodes, np.int64),
        }

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a `state()`; it must be of as many environments, or ValueError, and nothing changes."""
        running, recent, num_episodes = (
            (np.array(state["returns"]), np.array(state["lengths"])),
            (np.array(state["recent_returns"]), np.array(state["recent_lengths"])),
            int(state["num_episodes"]),
        )
        if {array.shape for array in running} != {self._returns.shape}:
            raise ValueError(f"The state is of {len(running[0])} environments, here are {len(self._returns)}.")
        self._returns, self._lengths = running
        self.recent_returns, self.recent_lengths = (array[-self.window :] for array in recent)
        self.num_episodes = num_episodes
