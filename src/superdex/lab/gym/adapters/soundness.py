"""Whether training is still sound: numbers that are no numbers any more, said in words."""

from __future__ import annotations

import math

import numpy as np
import torch
from stable_baselines3.common.policies import ActorCriticPolicy

from superdex.lab.gym.adapters.errors import TrainingDiverged
from superdex.lab.gym.rollouts import Rollout

__all__ = ["diverged", "wrong_policy", "wrong_rollout"]

_LOOK = ". Look at the task's observation, and at its simulation"


def diverged(steps: int, what: str) -> TrainingDiverged:
    """The error that says `what` is wrong after so many `steps` of all environments, and what to do."""
    return TrainingDiverged(
        f"Training diverged after {steps} steps: {what}. Begin a new run with a smaller learning rate (--learning_rate"
        " of the command, learning_rate of BatchPPO), or with observations and rewards normalised."
    )


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


def wrong_rollout(rollout: Rollout, first_step: int) -> str | None:
    """Which reward or observation of a rollout, whose first step has that number, cannot be learned from, or None."""
    bad = np.argwhere(~np.isfinite(rollout.rewards))
    if len(bad):
        step, environment = bad[0]
        return (
            f"environment {environment} gave the reward {rollout.rewards[step, environment]} in step"
            f" {first_step + step} of training. Look at the task's reward terms"
        )
    for step, rows in enumerate([*rollout.observations, rollout.last_observation], first_step):
        if (found := _damaged_row(rows)) is not None:
            return f"environment {found[0]} gave the observation {found[1]} before step {step} of training{_LOOK}"
    if (found := _damaged_row(rollout.final_observations)) is not None:
        step, environment = rollout.final_steps[found[0]], rollout.final_environments[found[0]]
        return f"environment {environment} gave the observation {found[1]} after step {first_step + step}{_LOOK}"
    return None


def _damaged_row(rows: np.ndarray) -> tuple[int, float] | None:
    """The first of observations (n, ...) with a value that is no float32 number, and that value; None if there is none.

    Larger float64 ones count among them: networks cannot take them, and their squares are not finite.
    """
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))  # there may be no row, which -1 does not take
    good = np.abs(flat) <= np.finfo(np.float32).max  # False for NaN
    if good.all():
        return None
    row, column = np.argwhere(~good)[0]
    return int(row), float(flat[row, column])
