"""Training goes on to the bit, after it was saved and loaded and after a callback stopped it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from superdex.lab.gym.adapters.generators import restore_generators
from superdex.lab.gym.adapters.ppo import BatchPPO
from superdex.lab.gym.adapters.sb3 import Sb3VecEnv
from tests.lab.gym.adapters.models import (
    ITERATION,
    NUM_ENVS,
    NUM_STEPS,
    Watcher,
    assert_same_policy,
    cartpoles,
    make_ppo,
    train,
)


def test_before_the_first_rollout_the_state_has_the_observation_as_it_was_given() -> None:
    model = make_ppo(cartpoles(normalize=True))
    model.adapter.normalizer.update(np.random.default_rng(0).normal(1, 2, (100, 4)))
    model._setup_learn(ITERATION)
    assert np.array_equal(model.training_state()["last_observation"], model.adapter.last_observation)


@pytest.mark.parametrize("normalize", [False, True])
def test_resumed_training_goes_on_to_the_bit(normalize: bool) -> None:
    options: dict[str, Any] = {"normalize_rewards": normalize, "learning_rate": lambda remaining: 1e-3 * remaining}
    whole = make_ppo(cartpoles(normalize), **options)
    train(whole, 6)
    first = make_ppo(cartpoles(normalize), **options)
    train(first, 2)
    second = saved_and_loaded(first, cartpoles(normalize))
    train(second, 6)
    assert_same_policy(whole, second)
    assert_same_state(whole, second)
    moments, resumed = (model.policy.optimizer.state_dict()["state"] for model in (whole, second))
    assert all(torch.equal(moments[i][key], resumed[i][key]) for i in moments for key in moments[i])
    assert (second.iteration, second.num_timesteps) == (6, 6 * ITERATION)


def saved_and_loaded(model: BatchPPO, adapter: Sb3VecEnv) -> BatchPPO:
    """The training as another process would load it, which did other work before."""
    policy, arrays = io.BytesIO(), io.BytesIO()
    model.save(policy)
    np.savez(arrays, **model.training_state())
    environments = model.adapter.envs.capture_state()
    np.random.seed(99)
    torch.manual_seed(99)
    policy.seek(0)
    arrays.seek(0)
    loaded = BatchPPO.load(policy, env=adapter)
    adapter.envs.restore_state(environments)
    with np.load(arrays) as state:
        loaded.load_training_state(state)
    return loaded


def assert_same_state(one: BatchPPO, other: BatchPPO) -> None:
    expected, actual = one.training_state(), other.training_state()
    assert expected.keys() == actual.keys()
    assert all(np.array_equal(actual[key], value) for key, value in expected.items())


@pytest.mark.parametrize("normalize", [False, True])
def test_training_that_a_callback_stopped_goes_on_as_if_it_were_never_saved(normalize: bool) -> None:
    stopped = make_ppo(cartpoles(normalize), normalize_rewards=normalize)
    assert list(stopped.iterations(6 * ITERATION, Watcher(NUM_STEPS + 3))) == [1]
    assert stopped.num_timesteps == 2 * ITERATION == stopped.control_steps * NUM_ENVS
    state = stopped.training_state()
    assert np.array_equal(state["last_observation"], stopped.adapter.last_observation)
    if normalize:
        assert state["normalizer/count"] == state["reward_scaler/count"] == 2 * ITERATION
    resumed = saved_and_loaded(stopped, cartpoles(normalize))
    restore_generators(state)
    train(stopped, 6)
    restore_generators(state)
    train(resumed, 6)
    assert stopped.iteration == 5
    assert_same_policy(stopped, resumed)
    assert_same_state(stopped, resumed)


def test_a_state_of_another_training_is_refused() -> None:
    model = make_ppo(cartpoles())
    with pytest.raises(RuntimeError, match="before the first iteration"):
        model.training_state()
    train(model, 1)
    with pytest.raises(ValueError, match="make the adapter .* with the normalisation"):
        make_ppo(cartpoles(normalize=True)).load_training_state(model.training_state())


DAMAGE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "reward_scaler/discounted": lambda array: array[1:],
    "reward_scaler/mean": lambda array: array[None],
    "normalizer/variance": lambda array: array[1:],
    "statistics/lengths": lambda array: array[1:],
    "generator/numpy_key": lambda array: array[1:],
    "generator/torch": lambda array: array[1:],
    "last_observation": lambda array: array[1:],
    "last_episode_starts": lambda array: array[1:],
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", DAMAGE)
def test_a_state_of_which_a_part_does_not_fit_changes_nothing(name: str, missing: bool) -> None:
    other, model = (make_ppo(cartpoles(normalize=True), normalize_rewards=True) for _ in range(2))
    train(other, 2)
    state = other.training_state()
    train(model, 1)
    before = model.training_state()
    if missing:
        del state[name]
    else:
        state[name] = DAMAGE[name](state[name])
    with pytest.raises(KeyError if missing else ValueError):
        model.load_training_state(state)
    assert all(np.array_equal(value, before[key]) for key, value in model.training_state().items())
    assert np.array_equal(model.adapter.last_observation, before["last_observation"])


def test_a_policy_loaded_without_environments_predicts_and_does_not_train() -> None:
    model = make_ppo(cartpoles())
    train(model, 1)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = BatchPPO.load(file)
    observation = np.zeros((1, 4), np.float32)
    assert np.array_equal(
        loaded.predict(observation, deterministic=True)[0], model.predict(observation, deterministic=True)[0]
    )
    with pytest.raises(RuntimeError, match="There are no environments"):
        loaded.actor()
