"""Whether training is still sound: numbers that are no numbers any more, said in words."""

from __future__ import annotations

import numpy as np
import torch
from stable_baselines3.common.policies import ActorCriticPolicy

from superdex.lab.gym.adapters.errors import TrainingDiverged

__all__ = ["diverged", "not_learnable", "wrong_policy"]


def diverged(steps: int, what: str) -> TrainingDiverged:
    """The error that says `what` is wrong after so many `steps` of all environments, and what to do."""
    return TrainingDiverged(
        f"Training diverged after {steps} steps: {what}. Begin a new run with a smaller learning rate (--learning_rate"
        " of the command, learning_rate of BatchPPO), or with observations and rewards normalised."
    )


def not_learnable(steps: int, what: str) -> TrainingDiverged:
    """The error that says `what` of the environments cannot be learned from; the learner has no remedy for it."""
    return TrainingDiverged(f"Training stopped after {steps} steps: {what}.")


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
