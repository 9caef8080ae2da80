"""Every finished episode is counted once, with its own return and length."""

from __future__ import annotations

import numpy as np
import pytest

from superdex.lab.gym.rollouts import EpisodeStatistics, RewardScaler, collect
from superdex.lab.gym.utils.vector import SceneVectorEnv
from tests.lab.gym.rollouts.test_normalizing import random_rollout, rollout_of, saved_and_loaded
from tests.lab.gym.rollouts.worlds import ChainEnv, Wanderer


def test_every_finished_episode_is_counted_once() -> None:
    rng = np.random.default_rng(0)
    statistics = EpisodeStatistics(4)
    expected: list[tuple[float, int]] = []
    running = [(0.0, 0)] * 4
    for _ in range(6):
        rollout = random_rollout(rng, (9, 4))
        before = len(expected)
        for t in range(9):
            for i in range(4):
                total, length = running[i]
                running[i] = total + float(rollout.rewards[t, i]), length + 1
                if rollout.terminated[t, i] or rollout.truncated[t, i]:
                    expected.append(running[i])
                    running[i] = 0.0, 0
        finished = statistics.update(rollout)
        assert list(zip(finished.returns.tolist(), finished.lengths.tolist(), strict=True)) == expected[before:]
    assert statistics.num_episodes == len(expected) > 20
    assert statistics.mean_return == pytest.approx(np.mean([total for total, _ in expected]), rel=1e-12)
    assert statistics.mean_length == pytest.approx(np.mean([length for _, length in expected]), rel=1e-12)


def test_episodes_of_real_environments_run_across_rollouts() -> None:
    statistics = EpisodeStatistics(3)
    with SceneVectorEnv(ChainEnv, num_envs=3, steps_per_episode=10, autoreset_mode="SameStep") as envs:
        observation, _ = envs.reset(seed=0)
        for _ in range(5):
            rollout = collect(envs, Wanderer(1), 7, observation=observation)
            observation = rollout.last_observation
            statistics.update(rollout)
    assert statistics.num_episodes == 3 * (35 // 10)
    assert set(statistics.recent_returns) == {10.0}
    assert set(statistics.recent_lengths) == {10}


def test_the_lost_episodes_of_restarted_environments_do_not_count() -> None:
    statistics, scaler = EpisodeStatistics(2), RewardScaler(2, 0.9)
    rewards, never = np.ones((3, 2)), np.zeros((3, 2), np.bool_)
    lost = np.array([False, True])
    last = never.copy()
    last[-1] = True
    for rollout in (rollout_of(rewards, never, never), rollout_of(rewards, never, last, lost)):
        statistics.update(rollout)
        scaler.scale(rollout)
    assert statistics.recent_returns.tolist() == [6, 3]
    assert statistics.recent_lengths.tolist() == [6, 3]
    scaler.scale(rollout_of(rewards[:1], never[:1], never[:1]))
    scaler.scale(rollout_of(rewards[:1], never[:1], never[:1], lost))
    assert scaler.discounted.tolist() == [1.9, 1]


def test_means_are_over_the_window() -> None:
    statistics = EpisodeStatistics(2, window=3)
    for reward in range(4):
        statistics.step(np.array([reward, 10.0]), np.array([True, reward == 3]))
    assert statistics.recent_returns.tolist() == [2, 3, 40]
    assert statistics.recent_lengths.tolist() == [1, 1, 4]
    assert statistics.num_episodes == 5
    assert statistics.mean_return == 15


def test_there_is_no_mean_of_nothing() -> None:
    statistics = EpisodeStatistics(2)
    assert np.isnan(statistics.mean_return)
    assert np.isnan(statistics.mean_length)


def test_running_episodes_can_be_forgotten() -> None:
    statistics = EpisodeStatistics(1)
    statistics.step(np.array([5.0]), np.array([False]))
    statistics.forget_running()
    finished = statistics.step(np.array([1.0]), np.array([True]))
    assert (finished.returns.tolist(), finished.lengths.tolist()) == ([1.0], [1])


def test_loaded_statistics_go_on() -> None:
    rng = np.random.default_rng(0)
    one, other = EpisodeStatistics(3), EpisodeStatistics(3)
    one.update(random_rollout(rng, (9, 3)))
    other.load_state(saved_and_loaded(one.state()))
    following = random_rollout(rng, (9, 3))
    finished = one.update(following)
    assert all(map(np.array_equal, finished, other.update(following)))
    assert (one.num_episodes, one.mean_return) == (other.num_episodes, other.mean_return)
    with pytest.raises(ValueError, match="of 3 environments, here are 2"):
        EpisodeStatistics(2).load_state(one.state())
