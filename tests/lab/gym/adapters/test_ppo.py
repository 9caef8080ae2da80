"""`BatchPPO` fills the library's buffer as the library does, resumes to the bit, and says what is wrong."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from superdex.lab.gym.adapters.ppo import BatchPPO, TrainingDiverged
from superdex.lab.gym.adapters.sb3 import Sb3VecEnv
from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.rollouts import collect
from superdex.lab.gym.utils.vector import SceneVectorEnv
from tests.lab.gym.adapters.models import make_adapter, make_ppo
from tests.lab.gym.rollouts.worlds import ChainEnv

NUM_ENVS, NUM_STEPS = 6, 16
ITERATION = NUM_ENVS * NUM_STEPS
FIELDS = {"steps_per_episode": 11, "reset_noise_scale": 0.08}


def cartpoles(normalize: bool = False) -> Sb3VecEnv:
    return make_adapter(CartPoleEnv, NUM_ENVS, normalize, **FIELDS)


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


def test_every_episode_is_counted_once() -> None:
    model = make_ppo(make_adapter(ChainEnv, 4, steps_per_episode=10))
    finished = [len(model.finished.returns) for _ in model.iterations(4 * 16 * 5)]
    assert finished == [4, 8, 4, 8, 8]
    assert model.statistics.num_episodes == 4 * (80 // 10) == sum(finished)
    assert model.statistics.mean_return == 10
    assert len(model.ep_info_buffer) == sum(finished)


def test_learn_and_iterations_are_one_training() -> None:
    one = make_ppo(cartpoles())
    one.learn(3 * ITERATION)
    other = make_ppo(cartpoles())  # it seeds the global generators that both draw from
    assert list(other.iterations(3 * ITERATION)) == [1, 2, 3]
    assert_same_policy(one, other)
    assert one.iteration == 3
    assert one.num_timesteps == other.num_timesteps == 3 * ITERATION
    assert one.control_steps == 3 * NUM_STEPS


def assert_same_policy(one: BatchPPO, other: BatchPPO) -> None:
    state = other.policy.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in one.policy.state_dict().items())


def train(model: BatchPPO, until: int) -> None:
    for iteration in model.iterations(6 * ITERATION):
        if iteration == until:
            break


@pytest.mark.parametrize("normalize", [False, True])
def test_resumed_training_goes_on_to_the_bit(normalize: bool) -> None:
    options: dict[str, Any] = {"normalize_rewards": normalize, "learning_rate": lambda remaining: 1e-3 * remaining}
    whole = make_ppo(cartpoles(normalize), **options)
    train(whole, 6)
    first = make_ppo(cartpoles(normalize), **options)
    train(first, 2)
    policy, arrays = io.BytesIO(), io.BytesIO()
    first.save(policy)
    np.savez(arrays, **first.training_state())
    environments = first.adapter.envs.capture_state()
    np.random.seed(99)  # other work in between
    torch.manual_seed(99)

    adapter = cartpoles(normalize)
    policy.seek(0)
    arrays.seek(0)
    second = BatchPPO.load(policy, env=adapter)
    adapter.envs.restore_state(environments)
    with np.load(arrays) as state:
        second.load_training_state(state)
    train(second, 6)
    assert_same_policy(whole, second)
    expected, actual = whole.training_state(), second.training_state()
    assert expected.keys() == actual.keys()
    assert all(np.array_equal(actual[key], value) for key, value in expected.items())
    moments, resumed = (model.policy.optimizer.state_dict()["state"] for model in (whole, second))
    assert all(torch.equal(moments[i][key], resumed[i][key]) for i in moments for key in moments[i])
    assert (second.iteration, second.num_timesteps) == (6, 6 * ITERATION)


def test_a_state_of_another_training_is_refused() -> None:
    model = make_ppo(cartpoles())
    with pytest.raises(RuntimeError, match="before the first iteration"):
        model.training_state()
    train(model, 1)
    with pytest.raises(ValueError, match="make the adapter .* with the normalisation"):
        make_ppo(cartpoles(normalize=True)).load_training_state(model.training_state())


@pytest.mark.parametrize("rate", [1e30, 1e18])
@pytest.mark.parametrize("epochs", [1, 4])
def test_a_policy_that_diverges_is_told_before_it_is_used(rate: float, epochs: int) -> None:
    model = make_ppo(cartpoles(), learning_rate=rate, n_epochs=epochs, batch_size=ITERATION)
    with pytest.raises(TrainingDiverged, match="diverged after 96 steps: .* Continue from an earlier checkpoint"):
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


def test_actions_that_are_not_finite_are_divergence() -> None:
    class Blinding(ChainEnv):
        def _make_observation(self, sim: Any) -> Any:
            observation, info = super()._make_observation(sim)
            return {"count": np.where(sim.task["count"] > 4, np.nan, 1)[:, None] * observation["count"]}, info

    model = make_ppo(make_adapter(Blinding, 4, steps_per_episode=10))
    with pytest.raises(TrainingDiverged, match="gave NaN or infinity in step 5"):
        list(model.iterations(1000))


def test_rewards_that_are_not_finite_are_told_before_they_are_learned_from() -> None:
    class Bottomless(ChainEnv):
        def _compute_reward_terms(self, action: Any, observation: Any, info: Any) -> Any:
            return {"bad": np.where(observation["count"][:, 0] > 4.5 / 30, -np.inf, 1.0)}

    model = make_ppo(make_adapter(Bottomless, 4, steps_per_episode=10))
    before = [value.clone() for value in model.policy.parameters()]
    with pytest.raises(TrainingDiverged, match="environment 0 gave the reward -inf in step 4 of training"):
        list(model.iterations(1000))
    assert all(map(torch.equal, before, model.policy.parameters()))


class Watcher(BaseCallback):
    """Counts calls and stops after some."""

    def __init__(self, stop_after: int) -> None:
        super().__init__()
        self.stop_after = stop_after
        self.timesteps: list[int] = []
        self.rewards = 0.0

    def _on_step(self) -> bool:
        self.timesteps.append(self.num_timesteps)
        self.rewards += float(self.locals["rewards"].sum())
        return self.n_calls < self.stop_after


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
        ({"policy_kwargs": {"share_features_extractor": False, "squash_output": True}}, "squash"),
    ],
)
def test_policies_that_cannot_be_copied_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, AssertionError), match=message):
        make_ppo(cartpoles(), **arguments)


def test_other_environments_are_refused() -> None:
    dummy = DummyVecEnv([lambda: CartPoleEnv()])
    with pytest.raises(ValueError, match="steps an Sb3VecEnv, got DummyVecEnv"):
        make_ppo(dummy)  # type: ignore[arg-type]


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
