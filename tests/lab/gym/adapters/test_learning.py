"""PPO learns the right values where these are known: at the start, at the end, and beyond a cut.

The same holds of the library's own PPO through the same adapter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

from superdex.lab.gym.adapters.ppo import BatchPPO
from superdex.lab.gym.envs import MochiEnv
from tests.lab.gym.adapters.models import make_adapter, make_ppo
from tests.lab.gym.rollouts.worlds import ChainEnv, EndingChainEnv, TwoStateEnv

GAMMA = 0.9
KINDS = pytest.mark.parametrize("kind", [BatchPPO, PPO])


def learned_values(
    kind: type, task: type[MochiEnv], observations: list[Any], steps_per_episode: int, iterations: int
) -> np.ndarray:
    """The value estimates of observations (n,) after training."""
    adapter = make_adapter(task, 8, steps_per_episode=steps_per_episode)
    model = make_ppo(
        adapter,
        kind,
        n_steps=20,
        batch_size=160,
        n_epochs=8,
        gamma=GAMMA,
        learning_rate=lambda remaining: 0.02 * remaining,
        max_grad_norm=1e6,
        policy_kwargs={"net_arch": {"pi": [], "vf": [32]}, "activation_fn": torch.nn.Tanh},
    )
    model.learn(iterations * 20 * 8)
    adapter.close()
    with torch.no_grad():
        rows = torch.tensor(np.reshape(observations, (len(observations), -1)), dtype=torch.float32)
        return model.policy.predict_values(rows).numpy().flatten()


@KINDS
def test_a_limit_does_not_end_the_world(kind: type) -> None:
    first, last, final = learned_values(kind, ChainEnv, [0, 9 / 30, 10 / 30], steps_per_episode=10, iterations=90)
    assert first == pytest.approx(10, abs=0.3)
    assert last == pytest.approx(10, abs=0.3)
    assert final == pytest.approx(10, abs=0.3)


@KINDS
def test_the_first_state_is_not_the_one_after_the_last(kind: type) -> None:
    first, running = learned_values(kind, TwoStateEnv, [0, 1], steps_per_episode=10, iterations=40)
    assert first == pytest.approx(9, abs=0.3)
    assert running == pytest.approx(10, abs=0.3)


@KINDS
@pytest.mark.parametrize("limit", [10, -1])
def test_what_the_task_ends_is_over_even_if_a_limit_is_reached_too(kind: type, limit: int) -> None:
    first, last = learned_values(kind, EndingChainEnv, [np.eye(11)[0], np.eye(11)[9]], limit, iterations=20)
    assert first == pytest.approx((1 - GAMMA**10) / (1 - GAMMA), abs=0.3)
    assert last == pytest.approx(1, abs=0.3)
