"""Whether training is still sound: numbers that are no numbers any more, said in words."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy

from superdex.lab.gym.rollouts import Rollout

__all__ = ["wrong_policy", "wrong_rewards"]


def wrong_policy(policy: ActorCriticPolicy, observations: np.ndarray, loss: float) -> str | None:
    """What is not finite after an update, or None.

    Parameters can be finite and what the networks make of them not: so they are asked for actions
    and values of some `observations` (n, ...), as the policy takes them.
    """
    damaged = [name for name, value in policy.named_parameters() if not bool(torch.isfinite(value).all())]
    if damaged:
        return f"{', '.join(damaged)} hold NaN or infinity"
    deviation = torch.exp(policy.log_std)
    if not bool((torch.isfinite(deviation) & (deviation > 0)).all()):
        return "the actions' deviation left the range of numbers"
    with torch.no_grad():
        rows = torch.from_numpy(observations).to(policy.device)
        features = policy.pi_features_extractor(rows.float())
        outputs = policy.action_net(policy.mlp_extractor.forward_actor(features)), policy.predict_values(rows)
    if not all(bool(torch.isfinite(output).all()) for output in outputs):
        return "the policy's actions or values are NaN or infinite"
    return None if np.isfinite(loss) else f"the loss is {loss}"


def wrong_rewards(rollout: Rollout, rewards: NDArray[np.float32], first_step: int) -> str | None:
    """Which reward is not finite, of those to learn from (T, N), or None."""
    bad = np.argwhere(~np.isfinite(rewards))
    if not len(bad):
        return None
    step, environment = bad[0]
    return (
        f"environment {environment} gave the reward {rollout.rewards[step, environment]} in step {first_step + step}"
        " of training. Look at the task's reward terms"
    )
