"""Actions that need no policy: random, neutral, and one entry after another through its range.

    actions = make_actions("sweep", envs.single_action_space, envs.num_envs, dt, seed=0)
    envs.step(actions(0))                   # of step 0

All are finite and in the space, whatever bounds it lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

__all__ = ["SWEEP_SECONDS", "Actions", "finite_bounds", "make_actions", "neutral_action", "sweep"]

Actions = Literal["random", "zero", "sweep"]

SWEEP_SECONDS = 2.0
"""How long a sweep stays with each entry of an action: from the middle to one end, to the other, and back."""

_FAR = float(np.finfo(np.float32).max) / 2
"""A bound beyond it counts as missing: the distance between two of them would be infinite."""


def make_actions(kind: Actions, space: Box, num_envs: int, dt: float, seed: int) -> Callable[[int], NDArray[Any]]:
    """A function that gives the actions (num_envs, *shape) of a step by its number; steps take `dt` seconds."""
    if kind == "random":
        rng = np.random.default_rng(seed)
        low, high = finite_bounds(space)
        shape = num_envs, *space.shape
        return lambda step: np.clip(low + rng.random(shape) * (high - low), low, high).astype(space.dtype)
    if kind == "sweep":
        return lambda step: np.tile(sweep(space, step * dt), (num_envs, 1))
    return lambda step: np.tile(neutral_action(space), (num_envs, 1))


def neutral_action(space: Box) -> NDArray[Any]:
    """Zeros, or what in the space comes nearest to them; shaped like it."""
    return np.clip(np.zeros(space.shape), space.low, space.high).astype(space.dtype)


def sweep(space: Box, time: float) -> NDArray[Any]:
    """(size,) the action at `time` [s]: entry after entry runs through its range as a sine, the others are neutral."""
    action = neutral_action(space)
    entry = int(time / SWEEP_SECONDS) % action.size
    low, high = (bounds[entry] for bounds in finite_bounds(space))
    reach = (high - low) / 2
    action[entry] = np.clip(low + reach + reach * math.sin(2 * math.pi * time / SWEEP_SECONDS), low, high)
    return action


def finite_bounds(space: Box) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """The space's bounds, each shaped like it; where there is none, what is 1 from the neutral action.

    Their distance is finite, too: bounds near the largest float32, which some spaces have for want of any, count as
    missing.
    """
    kind = np.result_type(space.dtype, np.float32)
    neutral, low, high = (each.astype(kind) for each in (neutral_action(space), space.low, space.high))
    return np.where(low > -_FAR, low, neutral - 1), np.where(high < _FAR, high, neutral + 1)
