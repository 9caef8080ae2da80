"""What is no number any more is said before it is learned from or used."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from stable_baselines3 import PPO

from superdex.lab.gym.adapters.ppo import BatchPPO
from superdex.lab.gym.adapters.soundness import TrainingDiverged
from tests.lab.gym.adapters.models import (
    ITERATION,
    cartpoles,
    make_adapter,
    make_ppo,
)
from tests.lab.gym.rollouts.worlds import ChainEnv


@pytest.mark.parametrize("rate", [1e30, 1e18])
@pytest.mark.parametrize("epochs", [1, 4])
def test_a_policy_that_diverges_is_told_before_it_is_used(rate: float, epochs: int) -> None:
    model = make_ppo(cartpoles(), learning_rate=rate, n_epochs=epochs, batch_size=ITERATION)
    with pytest.raises(
        TrainingDiverged, match=r"diverged after 96 steps: .* Begin a new run with a smaller learning rate"
    ):
        list(model.iterations(10 * ITERATION))
    assert model.iteration == 0


def damage_weights(model: BatchPPO) -> None:
    model.policy.action_net.weight.data[0, 0] = np.nan


def damage_outputs(model: BatchPPO) -> None:
    for layer in (model.policy.mlp_extractor.policy_net[0], model.policy.action_net):
        layer.weight.data[:] = 3e38  # each is a number, and their products are not


def damage_deviation(model: BatchPPO) -> None:
    model.policy.log_std.data[:] = -1e4


DAMAGE = {
    "action_net.weight hold NaN": damage_weights,
    "actions or values are NaN or infinite": damage_outputs,
    "actions' deviation left the range": damage_deviation,
}


@pytest.mark.parametrize("message", DAMAGE)
def test_what_an_update_damaged_is_said(monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    model = make_ppo(cartpoles(), policy_kwargs={"net_arch": [8], "activation_fn": torch.nn.ReLU})
    learn = PPO.train

    def damage(self: BatchPPO) -> None:
        learn(self)
        DAMAGE[message](self)

    monkeypatch.setattr(PPO, "train", damage)
    with pytest.raises(TrainingDiverged, match=message):
        list(model.iterations(ITERATION))


@pytest.mark.parametrize(("limit", "where"), [(10, "before step 5 of training"), (5, "after step 4")])
@pytest.mark.parametrize("normalize", [False, True])
def test_an_observation_that_is_nan_is_the_tasks_wherever_it_is(normalize: bool, limit: int, where: str) -> None:
    class Blinding(ChainEnv):
        def _make_observation(self, sim: Any) -> Any:
            observation, info = super()._make_observation(sim)
            bad = (sim.task["count"] > 4) & (np.arange(len(sim.task["count"])) == 3)
            return {"count": np.where(bad, np.nan, 1)[:, None] * observation["count"]}, info

    model = make_ppo(make_adapter(Blinding, 4, normalize, steps_per_episode=limit))
    with pytest.raises(
        TrainingDiverged, match=rf"Environment 3 gave the observation nan {where}\. Look at the task"
    ) as caught:
        list(model.iterations(1000))
    assert "learning rate" not in str(caught.value)


def test_actions_that_are_not_finite_for_sound_observations_are_divergence() -> None:
    model = make_ppo(cartpoles())
    damage_weights(model)
    with pytest.raises(TrainingDiverged, match=r"NaN or infinity in step 0, for environments .* a smaller learning"):
        list(model.iterations(1000))


def test_a_rollout_in_which_no_episode_ends_is_sound() -> None:
    model = make_ppo(make_adapter(ChainEnv, 4, steps_per_episode=1000))
    assert next(model.iterations(1000)) == 1
    assert model.statistics.num_episodes == 0


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e200])
@pytest.mark.parametrize(("limit", "where"), [(10, "before step 5 of training"), (5, "after step 4")])
def test_observations_that_cannot_be_learned_from_are_told_with_their_place(
    value: float, limit: int, where: str
) -> None:
    class Exploding(ChainEnv):
        def _observation_parts(self) -> Any:
            return {"count": Box(-np.inf, np.inf, (1,), np.float64)}

        def _make_observation(self, sim: Any) -> Any:
            observation, info = super()._make_observation(sim)
            return {"count": np.where(sim.task["count"][:, None] > 4, value, observation["count"])}, info

    model = make_ppo(make_adapter(Exploding, 4, normalize=True, steps_per_episode=limit))
    with pytest.raises(TrainingDiverged, match=rf"Environment 0 gave the observation {re.escape(str(value))} {where}"):
        list(model.iterations(1000))


@pytest.mark.parametrize("normalize_rewards", [False, True])
def test_rewards_that_are_not_finite_are_told_before_they_are_learned_from(normalize_rewards: bool) -> None:
    class Bottomless(ChainEnv):
        def _compute_reward_terms(self, action: Any, observation: Any, info: Any) -> Any:
            return {"bad": np.where(observation["count"][:, 0] > 4.5 / 30, -np.inf, 1.0)}

    model = make_ppo(make_adapter(Bottomless, 4, steps_per_episode=10), normalize_rewards=normalize_rewards)
    before = [value.clone() for value in model.policy.parameters()]
    with pytest.raises(TrainingDiverged, match="Environment 0 gave the reward -inf in step 4 of training"):
        list(model.iterations(1000))
    assert all(map(torch.equal, before, model.policy.parameters()))
