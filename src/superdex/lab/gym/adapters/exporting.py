"""A NumPy copy of the actor of a Stable-Baselines3 policy."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import torch
from gymnasium.spaces import Box
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import FlattenExtractor

from superdex.lab.gym.rollouts import GaussianMlpPolicy, ObservationNormalizer

__all__ = ["export_actor"]

_ACTIVATIONS: dict[type[torch.nn.Module], str] = {torch.nn.ReLU: "relu", torch.nn.Tanh: "tanh"}


def export_actor(
    policy: ActorCriticPolicy, normalizer: ObservationNormalizer | None, seed: int, deterministic: bool = False
) -> GaussianMlpPolicy:
    """The actor of `policy` with copies of its weights and of the normaliser's statistics.

    Raises:
        ValueError: if the policy is not a Gaussian one over `Box` actions, of linear layers with ReLU or Tanh
            between them, on the flat observation, which it takes as it is.
    """
    activation = policy.activation_fn
    space = policy.action_space
    if not isinstance(space, Box) or not isinstance(policy.action_dist, DiagGaussianDistribution):
        _refuse(f"it acts by {type(policy.action_dist).__name__} in {space}")
    if activation not in _ACTIVATIONS:
        _refuse(f"its activation is {activation.__name__}")
    if type(policy.features_extractor) is not FlattenExtractor:
        _refuse(f"it sees observations through {type(policy.features_extractor).__name__}")
    if policy.normalize_images and is_image_space(policy.observation_space):
        _refuse(
            f"it divides images, {policy.observation_space}, by 255. Sb3VecEnv(..., normalize_observations=True) gives"
            ' it normalised ones instead, policy_kwargs={"normalize_images": False} those of the environments'
        )
    modules = list(policy.mlp_extractor.policy_net)
    linears = [module for module in modules if isinstance(module, torch.nn.Linear)]
    if len(modules) != 2 * len(linears) or not isinstance(policy.action_net, torch.nn.Linear):
        _refuse("its actor has other layers than linear ones")
    return GaussianMlpPolicy(
        layers=tuple((_copied(layer.weight.T), _copied(layer.bias)) for layer in [*linears, policy.action_net]),
        activation=_ACTIVATIONS[activation],
        log_std=_copied(policy.log_std),
        low=space.low,
        high=space.high,
        mean=None if normalizer is None else normalizer.mean.copy(),
        scale=None if normalizer is None else normalizer.scale,
        clip=10.0 if normalizer is None else normalizer.clip,
        seed=seed,
        deterministic=deterministic,
    )


def _copied(tensor: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.detach().cpu().numpy()).copy()


def _refuse(why: str) -> NoReturn:
    raise ValueError(
        "Batched collection needs an MlpPolicy with Gaussian actions in a Box and ReLU or Tanh between its layers:"
        f" {why}. Or use Stable-Baselines3's PPO itself, on the same Sb3VecEnv."
    )
