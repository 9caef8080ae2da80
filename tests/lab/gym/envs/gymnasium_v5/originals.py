"""Gymnasium's own environments, and rollouts of ours beside them."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

from superdex.lab.gym.envs import MochiEnv, gymnasium_v5

MODULES = {
    "Ant": "ant_v5",
    "HalfCheetah": "half_cheetah_v5",
    "Hopper": "hopper_v5",
    "Humanoid": "humanoid_v5",
    "HumanoidStandup": "humanoidstandup_v5",
    "InvertedDoublePendulum": "inverted_double_pendulum_v5",
    "InvertedPendulum": "inverted_pendulum_v5",
    "Pusher": "pusher_v5",
    "Reacher": "reacher_v5",
    "Swimmer": "swimmer_v5",
    "Walker2d": "walker2d_v5",
}
NAMES = sorted(MODULES)


def our_class(name: str) -> type[MochiEnv]:
    return getattr(gymnasium_v5, f"{name}V5Env")


def original_class(name: str) -> type[gymnasium.Env]:
    module = importlib.import_module(f"gymnasium.envs.mujoco.{MODULES[name]}")
    return getattr(module, f"{name}Env")


def original(name: str, limit: int, **keywords: Any) -> gymnasium.Env:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MuJoCo has words for some of the files
        return TimeLimit(original_class(name)(**keywords), limit)


def assert_equal(actual: Any, expected: Any, what: str) -> None:
    one, other = np.asarray(actual), np.asarray(expected)
    assert one.shape == other.shape, what
    assert np.array_equal(one, other, equal_nan=True), f"{what}: {one} instead of {other}"


def assert_has(info: dict[str, Any], expected: dict[str, Any], where: str) -> None:
    """Every entry of the original's info; ours has more."""
    for key, value in expected.items():
        assert_equal(info[key], value, f"info {key!r} {where}")


def assert_same_rollout(
    ours: gymnasium.Env, theirs: gymnasium.Env, *, num_steps: int = 500, seed: int = 3, reach: float = 1.0
) -> int:
    """The same seed and actions give the same results; the number of episodes that ended is returned.

    Actions are uniform in `reach` times their space.
    """
    assert ours.action_space == theirs.action_space
    assert ours.observation_space == theirs.observation_space
    rng, ended = np.random.default_rng(seed), 0

    def compare_resets(**keywords: Any) -> None:
        (observation, info), (wanted, wanted_info) = ours.reset(**keywords), theirs.reset(**keywords)
        assert observation.dtype == wanted.dtype
        assert_equal(observation, wanted, f"observation of reset {ended}")
        assert_has(info, wanted_info, f"of reset {ended}")

    compare_resets(seed=seed)
    space: Any = theirs.action_space
    for step in range(num_steps):
        action = (reach * rng.uniform(space.low, space.high)).astype(space.dtype)
        actual, expected = ours.step(action), theirs.step(action)
        assert actual[0].dtype == expected[0].dtype
        for name, a, e in zip(("observation", "reward", "terminated", "truncated"), actual, expected, strict=False):
            assert_equal(a, e, f"{name} of step {step}")
        assert_has(actual[4], expected[4], f"of step {step}")
        if expected[2] or expected[3]:
            ended += 1
            compare_resets()
    return ended
