"""Rewards and observations that are no numbers, which nothing can be learned from, said with their place."""

from __future__ import annotations

import math

import numpy as np

from superdex.lab.gym.rollouts.rollout import Rollout

__all__ = ["wrong_observation", "wrong_rollout"]

_LOOK = ". Look at the task's observation, and at its simulation"


def wrong_rollout(rollout: Rollout, first_step: int) -> str | None:
    """Which reward or observation of a rollout, whose first step has that number, cannot be learned from, or None."""
    bad = np.argwhere(~np.isfinite(rollout.rewards))
    if len(bad):
        step, environment = bad[0]
        return (
            f"Environment {environment} gave the reward {rollout.rewards[step, environment]} in step"
            f" {first_step + step} of training. Look at the task's reward terms"
        )
    for step, rows in enumerate([*rollout.observations, rollout.last_observation], first_step):
        if (wrong := wrong_observation(rows, step)) is not None:
            return wrong
    if (found := _damaged_row(rollout.final_observations)) is not None:
        step, environment = rollout.final_steps[found[0]], rollout.final_environments[found[0]]
        return f"Environment {environment} gave the observation {found[1]} after step {first_step + step}{_LOOK}"
    return None


def wrong_observation(rows: np.ndarray, step: int, first_environment: int = 0) -> str | None:
    """Which of the observations (n, ...) that a policy sees before that step it cannot act on, or None.

    The first row is that of `first_environment`.
    """
    found = _damaged_row(rows)
    if found is None:
        return None
    environment = first_environment + found[0]
    return f"Environment {environment} gave the observation {found[1]} before step {step} of training{_LOOK}"


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
