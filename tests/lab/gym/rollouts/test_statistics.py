"""Every finished episode is counted once, with its own return and length."""

from __future__ import annotations

import multiprocessing
from functools import partial

import numpy as np
import pytest

from superdex.lab.gym.rollouts import EpisodeStatistics, RewardScaler, collect
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv
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


def test_episodes_that_were_lost_within_a_rollout_do_not_count_and_the_next_ones_do() -> None:
    statistics = EpisodeStatistics(2)
    rewards, never = np.ones((5, 2)), np.zeros((5, 2), np.bool_)
    cut, lost = never.copy(), never.copy()
    cut[2] = cut[4] = lost[2, 1] = True
    rewards[2, 1] = 0
    finished = statistics.update(rollout_of(rewards, never, cut, lost=lost))
    assert finished.returns.tolist() == statistics.recent_returns.tolist() == [3, 2, 2]
    assert finished.lengths.tolist() == [3, 2, 2]
    assert statistics.num_episodes == 3


def test_the_death_of_a_worker_finishes_no_episode() -> None:
    statistics = EpisodeStatistics(4)
    tasks = [partial(ChainEnv, steps_per_episode=10)] * 4
    with HybridVectorEnv(tasks, 2, autoreset_mode="SameStep", on_worker_failure="restart") as envs:
        observation, _ = envs.reset(seed=0)
        first = collect(envs, Wanderer(1), 7, observation=observation)
        statistics.update(first)
        victim = max(multiprocessing.active_children(), key=lambda child: child.pid or 0)
        victim.kill()
        victim.join()
        second = collect(envs, Wanderer(1), 11, observation=first.last_observation, first_step=7)
        finished = statistics.update(second)
    lost = list(zip(second.final_steps[second.final_lost], second.final_environments[second.final_lost], strict=True))
    assert lost in ([(0, 0), (0, 1)], [(0, 2), (0, 3)])
    assert second.truncated[0].sum() == 2
    assert finished.returns.tolist() == [10] * 4  # two go on to step 3, and two new ones begin in step 1
    assert finished.lengths.tolist() == [10] * 4
    assert not first.final_lost.any()


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
    with pytest.raises(ValueError, match="of 3 environments, here are 3"):
        other.load_state(EpisodeStatistics(3).state() | {"lengths": np.zeros(2, np.int64)})
    assert all(np.array_equal(value, one.state()[key]) for key, value in other.state().items())


def test_longest_running_episode_is_that_of_the_state() -> None:
    statistics, rng = EpisodeStatistics(5), np.random.default_rng(0)
    for _ in range(50):
        statistics.step(np.ones(5), rng.random(5) < 0.2)
        assert statistics.longest_running == statistics.state()["lengths"].max()
