"""`RslRlVecEnv` gives rsl-rl what its `VecEnv` promises, and what `SceneVectorEnv` gives."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.envs.mujoco.inverted_pendulum_v5 import InvertedPendulumEnv
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from superdex.lab.gym.adapters.rsl_rl import RslRlVecEnv
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.envs.gymnasium_v5 import HalfCheetahV5Env
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv
from tests.guests.running import CutAndOverEnv, CutEnv

NUM_ENVS = 6


@pytest.fixture
def adapter() -> Iterator[RslRlVecEnv]:
    with SceneVectorEnv(CartPoleEnv, num_envs=NUM_ENVS, autoreset_mode="SameStep", steps_per_episode=8) as envs:
        yield RslRlVecEnv(envs, seed=3)


def test_has_all_that_the_interface_names(adapter: RslRlVecEnv) -> None:
    names = [*VecEnv.__annotations__, *VecEnv.__abstractmethods__]
    assert {"num_envs", "episode_length_buf", "step"} <= set(names)
    for name in names:
        assert hasattr(adapter, name), name


def test_steps_are_those_of_the_environments(adapter: RslRlVecEnv) -> None:
    generator = torch.Generator().manual_seed(0)
    with SceneVectorEnv(CartPoleEnv, num_envs=NUM_ENVS, autoreset_mode="SameStep", steps_per_episode=8) as twin:
        first, _ = twin.reset(seed=3)
        assert np.array_equal(adapter.get_observations()["policy"].numpy(), first)
        ends = 0
        for _ in range(20):
            actions = torch.randn(NUM_ENVS, 1, generator=generator) * 5
            observations, rewards, dones, extras = adapter.step(actions)
            expected = twin.step(actions.numpy())
            assert isinstance(observations, TensorDict)
            assert observations.batch_size == (NUM_ENVS,)
            assert np.array_equal(observations["policy"].numpy(), expected.observation)
            assert rewards.dtype == torch.float32
            assert np.array_equal(rewards.numpy(), expected.reward)
            assert np.array_equal(dones.bool().numpy(), expected.terminated | expected.truncated)
            assert np.array_equal(extras["time_outs"].numpy(), expected.truncated)
            ends += int(dones.sum())
    assert ends >= 2 * NUM_ENVS


def test_actions_are_clipped_where_the_task_does_not() -> None:
    with SceneVectorEnv(HalfCheetahV5Env, num_envs=2, autoreset_mode="SameStep") as envs:
        rewards = []
        for size in (1, 5):
            adapter = RslRlVecEnv(envs, seed=0)
            rewards.append(adapter.step(torch.full((2, 6), float(size)))[1])
        assert torch.equal(*rewards)
        envs.reset(seed=0)
        charged = envs.step(np.full((2, 6), 5, np.float32)).reward
        assert (charged < rewards[0].numpy() - 10).all()  # 0.1 * 6 * (5**2 - 1)


@pytest.mark.parametrize(("task", "timed_out"), [(CutEnv, True), (CutAndOverEnv, False)])
def test_a_time_out_is_no_end_of_the_task(task: type, timed_out: bool) -> None:
    with SceneVectorEnv(task, num_envs=2, autoreset_mode="SameStep") as envs:
        adapter = RslRlVecEnv(envs)
        for _ in range(3):
            _, _, dones, extras = adapter.step(torch.zeros(2, 1))
    assert dones.tolist() == [1, 1]
    assert extras["time_outs"].tolist() == [timed_out, timed_out]


def test_tensors_are_the_callers_even_if_results_are_reused() -> None:
    with SceneVectorEnv(CartPoleEnv, num_envs=2, autoreset_mode="SameStep", copy=False) as envs:
        adapter = RslRlVecEnv(envs, seed=0)
        observations, rewards, *_ = adapter.step(torch.ones(2, 1))
        kept = observations["policy"].clone(), rewards.clone()
        adapter.step(-torch.ones(2, 1))
    assert torch.equal(observations["policy"], kept[0])
    assert torch.equal(rewards, kept[1])


def make_hybrid() -> HybridVectorEnv:
    return HybridVectorEnv([CutEnv] * 4, num_envs_per_worker=2, autoreset_mode="SameStep")


def make_scene() -> SceneVectorEnv:
    return SceneVectorEnv(CutEnv, num_envs=4, autoreset_mode="SameStep")


@pytest.mark.parametrize("make", [make_scene, make_hybrid])
def test_episode_lengths_can_be_set(make) -> None:
    with make() as envs:
        adapter = RslRlVecEnv(envs)
        assert adapter.max_episode_length == 3
        before = adapter.get_observations()["policy"].clone()
        adapter.episode_length_buf = torch.tensor([0, 1, 2, 0])
        assert torch.equal(adapter.get_observations()["policy"], before)
        lengths, dones = [], []
        for _ in range(4):
            lengths.append(adapter.episode_length_buf.tolist())
            dones.append(adapter.step(torch.zeros(4, 1))[2].tolist())
    assert lengths == [[0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 2], [0, 1, 2, 0]]
    assert dones == [[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0]]


@pytest.mark.parametrize("steps", [torch.zeros(3, dtype=torch.long), torch.zeros(6), -torch.ones(6, dtype=torch.long)])
def test_other_episode_lengths_are_refused(adapter: RslRlVecEnv, steps: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="takes 6 integers from 0, one per environment"):
        adapter.episode_length_buf = steps
    assert adapter.episode_length_buf.tolist() == [0] * 6


def test_without_a_time_limit_there_are_no_random_points_of_it() -> None:
    with SceneVectorEnv(CutEnv, num_envs=2, autoreset_mode="SameStep") as limited:
        assert RslRlVecEnv(limited).max_episode_length == 3
    with (
        SceneVectorEnv(CartPoleEnv, num_envs=2, autoreset_mode="SameStep", steps_per_episode=-1) as envs,
        pytest.raises(
            ValueError, match=r"steps_per_episode=1000\), or call learn\(\.\.\., init_at_random_ep_len=False"
        ),
    ):
        _ = RslRlVecEnv(envs).max_episode_length


def test_one_environment_is_asked_for_the_configuration_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with make_hybrid() as envs:
        adapter = RslRlVecEnv(envs)
        calls, call_on = [], envs.call_on
        monkeypatch.setattr(envs, "call_on", lambda rows, *args: calls.append(list(rows)) or call_on(rows, *args))
        assert [adapter.max_episode_length, adapter.cfg.steps_per_episode, adapter.max_episode_length] == [3] * 3
    assert calls == [[0], [0]]


def test_foreign_environments_have_no_configuration() -> None:
    with HybridVectorEnv([InvertedPendulumEnv] * 2, num_envs_per_worker=2, autoreset_mode="SameStep") as envs:
        adapter = RslRlVecEnv(envs)
        assert adapter.cfg == {}
        assert adapter.step(torch.zeros(2, 1))[0]["policy"].dtype == torch.float32


def test_spaces_must_be_flat() -> None:
    class Tall(gymnasium.ObservationWrapper):
        def __init__(self) -> None:
            super().__init__(CartPoleEnv())
            self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2, 2))

        def observation(self, observation: np.ndarray) -> np.ndarray:
            return observation.reshape(2, 2)

    with (
        SceneVectorEnv([Tall], autoreset_mode="SameStep") as envs,
        pytest.raises(ValueError, match=r"flat spaces, but the observation space has shape \(2, 2\)"),
    ):
        RslRlVecEnv(envs)
