"""From a rollout to Stable-Baselines3's `RolloutBuffer`: values, log-probabilities and advantages in large passes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import ActorCriticPolicy

from superdex.lab.gym.rollouts import ObservationNormalizer, Rollout

__all__ = ["ActorCritic", "fill"]

_CHUNK = 16384
"""Rows of one forward pass."""


class ActorCritic:
    """A policy's values and log-probabilities, of observations that a normaliser brings to its scale first."""

    def __init__(self, policy: ActorCriticPolicy, normalizer: ObservationNormalizer | None) -> None:
        self._policy = policy
        self._normalizer = normalizer

    def normalized(self, observations: np.ndarray) -> np.ndarray:
        """Observations (..., *observation_shape) as the policy takes them."""
        return observations if self._normalizer is None else self._normalizer.normalize(observations)

    def values(self, observations: np.ndarray) -> NDArray[np.float32]:
        """(n,): the value estimates of observations (n, *observation_shape)."""
        with torch.no_grad():
            rows = torch.from_numpy(self.normalized(observations)).to(self._policy.device)
            return self._policy.predict_values(rows).flatten().cpu().numpy()

    def evaluate(self, seen: np.ndarray, actions: np.ndarray) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Values and log-probabilities (n,) of normalised observations (n, ...) and actions (n, size)."""
        values, log_probs = np.empty(len(seen), np.float32), np.empty(len(seen), np.float32)
        with torch.no_grad():
            for start in range(0, len(seen), _CHUNK):
                rows = slice(start, start + _CHUNK)
                chunk = (torch.from_numpy(array[rows]).to(self._policy.device) for array in (seen, actions))
                value, log_prob, _ = self._policy.evaluate_actions(*chunk)
                values[rows] = value.flatten().cpu().numpy()
                log_probs[rows] = log_prob.cpu().numpy()
        return values, log_probs


def fill(
    buffer: RolloutBuffer,
    rollout: Rollout,
    model: ActorCritic,
    rewards: NDArray[np.float32],
    starts: NDArray[np.bool_],
) -> None:
    """Fill the buffer with a rollout, ready to learn from.

    Args:
        buffer: of the rollout's size.
        rollout: what the policy of `model` did.
        model: gives values and log-probabilities.
        rewards: (T, N) the rewards to learn from, which may be scaled.
        starts: (N,) whether the first step was the first of an episode.
    """
    ended = rollout.terminated | rollout.truncated
    seen = model.normalized(rollout.observations)
    actions = rollout.actions.reshape(*ended.shape, -1)
    flat = seen.reshape(ended.size, *seen.shape[2:]), actions.reshape(ended.size, -1)
    values, log_probs = model.evaluate(*flat)
    buffer.reset()
    buffer.observations = seen
    buffer.actions = actions
    buffer.rewards = _bootstrapped(rollout, rewards, model, buffer.gamma)
    buffer.episode_starts[0] = starts
    buffer.episode_starts[1:] = ended[:-1]
    buffer.values = values.reshape(ended.shape)
    buffer.log_probs = log_probs.reshape(ended.shape)
    buffer.compute_returns_and_advantage(torch.from_numpy(model.values(rollout.last_observation)), ended[-1])
    buffer.pos, buffer.full = len(ended), True


def _bootstrapped(
    rollout: Rollout, rewards: NDArray[np.float32], model: ActorCritic, gamma: float
) -> NDArray[np.float32]:
    """The rewards, with what would have come where a limit cut an episode off that the task did not end."""
    rewards = rewards.copy()
    cut = ~rollout.terminated[rollout.final_steps, rollout.final_environments]
    if cut.any():
        where = rollout.final_steps[cut], rollout.final_environments[cut]
        rewards[where] += gamma * model.values(rollout.final_observations[cut])
    return rewards
