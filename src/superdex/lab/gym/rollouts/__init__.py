"""Rollouts: what a policy and a batch of environments did together, as arrays, and what is made of them.

    policy = GaussianMlpPolicy(...)
    observation, _ = envs.reset(seed=0)
    rollout = collect(envs, policy, 64, observation=observation)
    finished = statistics.update(rollout)

NumPy only: a rollout worker on another machine needs no learning library.
"""

from superdex.lab.gym.rollouts.collecting import collect
from superdex.lab.gym.rollouts.gaussian_mlp_policy import GaussianMlpPolicy
from superdex.lab.gym.rollouts.normalizing import ObservationNormalizer, RewardScaler
from superdex.lab.gym.rollouts.rollout import Policy, Rollout
from superdex.lab.gym.rollouts.statistics import EpisodeStatistics, FinishedEpisodes

__all__ = [
    "EpisodeStatistics",
    "FinishedEpisodes",
    "GaussianMlpPolicy",
    "ObservationNormalizer",
    "Policy",
    "RewardScaler",
    "Rollout",
    "collect",
]
