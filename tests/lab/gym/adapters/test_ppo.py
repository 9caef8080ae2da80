"""`BatchPPO` fills the library's buffer as the library does, resumes to the bit, and says what is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from superdex.lab.gym.adapters.sb3 import Sb3VecEnv
from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.rollouts import collect
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv
from tests.lab.gym.adapters.models import (
    FIELDS,
    ITERATION,
    NUM_ENVS,
    NUM_STEPS,
    Watcher,
    assert_same_policy,
    cartpoles,
    make_adapter,
    make_ppo,
    train,
)
from tests.lab.gym.rollouts.worlds import ChainEnv


class Recorded:
    """The forward pass of a policy, with actions that were taken before."""

    def __init__(self, policy: Any, actions: np.ndarray) -> None:
        self._policy = policy
        self._actions = iter(torch.from_numpy(actions))

    def __call__(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        actions = next(self._actions)
        values, log_probs, _ = self._policy.evaluate_actions(observation, actions)
        return actions, values, log_probs


def test_the_buffer_is_the_one_that_the_library_fills() -> None:
    ours, theirs = make_ppo(cartpoles()), make_ppo(cartpoles(), PPO)
    theirs.policy.load_state_dict(ours.policy.state_dict())
    (_, callback), _ = ours._setup_learn(10**6), theirs._setup_learn(10**6)
    for _ in range(3):
        assert ours.collect_rollouts(ours.env, callback, ours.rollout_buffer, NUM_STEPS)
        theirs.policy.forward = Recorded(theirs.policy, ours.rollout_buffer.actions)
        assert theirs.collect_rollouts(theirs.env, callback, theirs.rollout_buffer, NUM_STEPS)
        for name in ("observations", "actions", "episode_starts"):
            assert np.array_equal(getattr(ours.rollout_buffer, name), getattr(theirs.rollout_buffer, name)), name
        for name in ("rewards", "values", "log_probs", "advantages", "returns"):
            actual, expected = getattr(ours.rollout_buffer, name), getattr(theirs.rollout_buffer, name)
            assert actual.dtype == expected.dtype
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5, err_msg=name)
        assert np.array_equal(ours._last_episode_starts, theirs._last_episode_starts)
        assert (ours.rollout_buffer.rewards != 1).any()  # cut off and terminated ones among them
    assert [e["l"] for e in ours.ep_info_buffer] == [e["l"] for e in theirs.ep_info_buffer]


def test_the_numpy_actor_is_the_policy() -> None:
    model = make_ppo(cartpoles(normalize=True), policy_kwargs={"net_arch": [8, 24], "activation_fn": torch.nn.ReLU})
    for _ in model.iterations(2 * ITERATION):
        pass
    observation = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    expected, _ = model.predict(model.adapter.normalizer.normalize(observation), deterministic=True)
    actor = model.actor(deterministic=True)
    actions = actor.bounded(actor(observation, 0, slice(0, 40)))
    np.testing.assert_allclose(actions, expected, rtol=1e-5, atol=1e-6)
    assert model.actor().log_std.tolist() == model.policy.log_std.tolist()


def test_the_statistics_are_held_still_in_a_rollout_and_take_it_in_after_it() -> None:
    model = make_ppo(cartpoles(normalize=True), normalize_rewards=True)
    counts = [model.adapter.normalizer.count for _ in model.iterations(3 * ITERATION)]
    assert counts == [ITERATION, 2 * ITERATION, 3 * ITERATION]  # resets do not count
    assert model.reward_scaler.moments.count == 3 * ITERATION
    assert model.rollout_buffer.observations.dtype == np.float32


def test_statistics_that_do_not_train_are_frozen() -> None:
    model = make_ppo(cartpoles(normalize=True))
    model.adapter.training = False
    shared = model.adapter.normalizer
    shared.update(np.random.default_rng(0).normal(size=(100, 4)))
    before = shared.state()
    list(model.iterations(2 * ITERATION))
    model.learn(ITERATION)
    assert all(np.array_equal(value, before[key]) for key, value in shared.state().items())
    assert model.adapter.training is False


@pytest.mark.parametrize("learn", [False, True])
def test_the_adapters_statistics_train_after_it_as_before(learn: bool) -> None:
    model = make_ppo(cartpoles(normalize=True))
    if learn:
        model.learn(ITERATION)
    else:
        list(model.iterations(ITERATION))
    assert model.adapter.training
    assert model.adapter.normalizer.count == ITERATION
    model.adapter.reset()
    assert model.adapter.normalizer.count == ITERATION + NUM_ENVS


def test_every_episode_is_counted_once() -> None:
    model = make_ppo(make_adapter(ChainEnv, 4, steps_per_episode=10))
    finished = [len(model.finished.returns) for _ in model.iterations(4 * 16 * 5)]
    assert finished == [4, 8, 4, 8, 8]
    assert model.statistics.num_episodes == 4 * (80 // 10) == sum(finished)
    assert model.statistics.mean_return == 10
    assert len(model.ep_info_buffer) == sum(finished)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("by", ["learn", "the adapter"])
def test_episodes_that_a_reset_broke_off_are_forgotten(normalize: bool, by: str) -> None:
    model = make_ppo(make_adapter(ChainEnv, 4, normalize, steps_per_episode=10), normalize_rewards=True)
    model.learn(4 * 16)  # 6 steps of the second episode are left
    assert (model.reward_scaler.discounted > 5).all()
    if by == "learn":
        model.learn(4 * 16)
    else:
        model.adapter.reset()
        model.learn(4 * 16, reset_num_timesteps=False)
    assert model.statistics.recent_lengths.tolist() == [10] * 8
    np.testing.assert_allclose(model.reward_scaler.discounted, (1 - 0.99**6) / 0.01)
    assert model.rollout_buffer.episode_starts[0].all()


class Rates(BaseCallback):
    """Remembers with what rate each update learned."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def _on_rollout_start(self) -> None:
        self._remember()

    def _on_training_end(self) -> None:
        self._remember()

    def _on_step(self) -> bool:
        return True

    def _remember(self) -> None:
        if self.model.iteration:
            self.rates.append(self.model.policy.optimizer.param_groups[0]["lr"])


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("total", [3 * ITERATION, 2 * ITERATION + 5])
def test_schedules_begin_at_the_full_rate_and_never_reach_zero(total: int, learn: bool) -> None:
    rates = Rates()
    model = make_ppo(cartpoles(), learning_rate=lambda remaining: 0.01 * remaining)
    if learn:
        model.learn(total, rates)
    else:
        list(model.iterations(total, rates))
    expected = [0.01 * (1 - start / total) for start in (0, ITERATION, 2 * ITERATION)]
    assert rates.rates == pytest.approx(expected)
    assert rates.rates[0] == 0.01
    assert rates.rates[-1] > 0


def test_learn_and_iterations_are_one_training() -> None:
    one = make_ppo(cartpoles())
    one.learn(3 * ITERATION)
    other = make_ppo(cartpoles())  # it seeds the global generators that both draw from
    assert list(other.iterations(3 * ITERATION)) == [1, 2, 3]
    assert_same_policy(one, other)
    assert one.iteration == 3
    assert one.num_timesteps == other.num_timesteps == 3 * ITERATION
    assert one.control_steps == 3 * NUM_STEPS


def test_iterations_log_as_learn_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = {"tensorboard_log": str(tmp_path), "verbose": 1, "logged": True}
    make_ppo(cartpoles(), **arguments).learn(3 * ITERATION)
    expected = logged(capsys)
    model = make_ppo(cartpoles(), **arguments)
    for _ in model.iterations(3 * ITERATION):
        assert "train/loss" in model.logger.name_to_value
    assert logged(capsys) == expected
    assert expected.count("ep_rew_mean") == expected.count("total_timesteps") == 3
    list(model.iterations(5 * ITERATION))  # goes on in its directory
    assert logged(capsys).count("ep_rew_mean") == 2
    assert {path.name: len(list(path.iterdir())) for path in tmp_path.iterdir()} == {"PPO_1": 1, "PPO_2": 2}


def logged(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The names of the figures in the tables that were printed, in their order."""
    return re.findall(r"^\|\s+(\w+) +\|", capsys.readouterr().out, re.MULTILINE)


def test_callbacks_are_called_for_every_step_and_can_stop() -> None:
    model, watcher = make_ppo(cartpoles()), Watcher(NUM_STEPS + 3)
    assert list(model.iterations(9 * ITERATION, watcher)) == [1]
    assert watcher.timesteps == [NUM_ENVS * (step + 1) for step in range(NUM_STEPS + 3)]
    assert watcher.rewards > 0


def test_environments_that_collect_by_themselves_do() -> None:
    calls = []

    class OwnCollect(SceneVectorEnv):
        def collect(self, policy: Any, num_steps: int, *, first_step: int = 0) -> Any:
            calls.append((num_steps, first_step))
            observation = self.reset(seed=0)[0] if not first_step else self._buffers.observation.copy()
            return collect(self, policy, num_steps, observation=observation, first_step=first_step)

    envs = OwnCollect(CartPoleEnv, num_envs=NUM_ENVS, num_threads=1, autoreset_mode="SameStep", **FIELDS)
    model = make_ppo(Sb3VecEnv(envs))
    train(model, 3)
    reference = make_ppo(cartpoles())
    train(reference, 3)
    assert calls == [(NUM_STEPS, 0), (NUM_STEPS, NUM_STEPS), (NUM_STEPS, 2 * NUM_STEPS)]
    assert_same_policy(model, reference)


def test_seconds_are_split_into_stepping_and_learning() -> None:
    model = make_ppo(cartpoles())
    for _ in model.iterations(3 * ITERATION):
        assert model.last_stepping_seconds > 0 < model.last_learning_seconds
    assert model.stepping_seconds > model.last_stepping_seconds
    assert model.learning_seconds > model.last_learning_seconds


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"use_sde": True}, "StateDependentNoiseDistribution"),
        ({"policy_kwargs": {"activation_fn": torch.nn.ELU}}, "its activation is ELU"),
    ],
)
def test_policies_that_cannot_be_copied_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_ppo(cartpoles(), **arguments)


class Picture(gymnasium.Env):
    """Observes an image, channels first."""

    observation_space = Box(0, 255, (1, 36, 36), np.uint8)
    action_space = Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.integers(0, 256, (1, 36, 36), np.uint8), {}

    def step(self, action: Any) -> Any:
        return self.np_random.integers(0, 256, (1, 36, 36), np.uint8), 1.0, False, False, {}


def test_images_are_refused_where_the_library_would_scale_them() -> None:
    envs = HybridVectorEnv([Picture] * 2, 2, autoreset_mode="SameStep")
    with pytest.raises(ValueError, match=r"it divides images, Box\(0, 255, \(1, 36, 36\), uint8\), by 255"):
        make_ppo(Sb3VecEnv(envs))
    kwargs = {"net_arch": [8], "activation_fn": torch.nn.Tanh}
    for model in (  # what the message says to do
        make_ppo(Sb3VecEnv(envs), policy_kwargs=kwargs | {"normalize_images": False}),
        make_ppo(Sb3VecEnv(envs, normalize_observations=True), policy_kwargs=kwargs),
    ):
        list(model.iterations(2 * NUM_STEPS))
        seen = model.adapter.last_observation
        given = seen if model.adapter.normalizer is None else model.adapter.normalizer.normalize(seen)
        expected, _ = model.predict(given, deterministic=True)
        actor = model.actor(deterministic=True)
        np.testing.assert_allclose(actor.bounded(actor(seen, 0, slice(0, 2))), expected, rtol=1e-4, atol=1e-5)
    envs.close()


def test_other_environments_are_refused() -> None:
    dummy = DummyVecEnv([lambda: CartPoleEnv()])
    with pytest.raises(ValueError, match="steps an Sb3VecEnv, got DummyVecEnv"):
        make_ppo(dummy)  # type: ignore[arg-type]
