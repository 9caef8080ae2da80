"""Evaluation: exactly N episodes, each counted once, and long ones as likely as short ones."""

import numpy as np
import pytest

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.evaluation import evaluate, quotas, require_fit
from superdex.lab.apps.tasks import find_task
from superdex.lab.gym.rollouts import GaussianMlpPolicy

BALANCING = np.array([[10.0], [1.0], [1.0], [50.0]], np.float32) / 3


def make_policy(weights=BALANCING, **changes):
    bound = np.full(1, 3, np.float32)
    zeros = np.zeros(1, np.float32)
    values = {"activation": "relu", "log_std": zeros, "low": -bound, "high": bound, "deterministic": True, **changes}
    return GaussianMlpPolicy(layers=((weights, zeros),), **values)


@pytest.fixture
def task():
    return find_task("CartPole")


def test_quotas_are_fixed_beforehand_and_sum_up():
    assert quotas(10, 4) == [3, 3, 2, 2]
    assert quotas(3, 100) == [1, 1, 1]
    assert quotas(1000, 1) == [1000]


def test_episodes_are_those_of_environments_alone(monkeypatch):
    monkeypatch.setattr("superdex.lab.apps.evaluation._MAX_ENVS", 2)
    task, policy = find_task("CartPole", {"steps_per_episode": 30}), make_policy(weights=BALANCING / 20)
    episodes = evaluate(task, policy, 5, seed=7)

    expected = []
    for row, quota in enumerate([3, 2]):
        env = task.make()
        observation, _ = env.reset(seed=7 + row)
        for _ in range(quota):
            total, length, ended = 0.0, 0, False
            while not ended:
                action = policy.bounded(policy.means(observation[None]))[0]
                observation, reward, terminated, truncated, info = env.step(action)
                total, length, ended = total + reward, length + 1, terminated or truncated
            expected.append((total, length, info["terminated_reason"] or info["truncated_reason"]))
            observation, _ = env.reset()
        env.close()
    assert list(zip(episodes.returns, episodes.lengths, episodes.reasons, strict=True)) == expected


def test_there_is_no_bias_to_short_episodes(monkeypatch):
    """Half of the policy's episodes last 10 times as long: with the first to end, they would hardly be counted."""

    class TwoKinds:
        """Balances the poles of the odd environments only."""

        def __call__(self, observation, step, environments):
            odd = np.arange(environments.start, environments.stop)[:, None] % 2 == 1
            return np.where(odd, make_policy().means(observation), np.float32(3))

        def bounded(self, actions):
            return actions

    monkeypatch.setattr("superdex.lab.apps.evaluation._MAX_ENVS", 10)
    episodes = evaluate(find_task("CartPole", {"steps_per_episode": 200}), TwoKinds(), 40)

    assert sorted(episodes.lengths.tolist())[20:] == [200] * 20
    assert episodes.lengths.max() > 10 * np.sort(episodes.lengths)[19]
    assert dict(episodes.count_reasons()) == {"Pole angle exceeded threshold": 20, "Steps per episode reached": 20}


def test_noise_depends_on_the_seed_only(task):
    policy = make_policy(deterministic=False, log_std=np.ones(1, np.float32))
    once, again, other = (evaluate(task, policy, 20, seed=seed) for seed in (1, 1, 2))

    np.testing.assert_array_equal(once.returns, again.returns)
    assert (once.returns != other.returns).any()


def test_tasks_without_step_limit_are_refused():
    with pytest.raises(
        UserError, match=r"Episodes of CartPole have no step limit \(steps_per_episode\), so they might"
    ):
        evaluate(find_task("CartPole", {"steps_per_episode": -1}), make_policy(), 1)


def test_policy_of_another_task_is_refused(task):
    require_fit(task, make_policy())
    message = r"does not fit CartPole any more: it takes 5 observed values .* shape \(1,\), the task gives 4 and"
    with pytest.raises(UserError, match=message):
        require_fit(task, make_policy(np.zeros((5, 1), np.float32)))
    with pytest.raises(UserError, match="does not fit HalfCheetah any more"):
        require_fit(find_task("HalfCheetah"), make_policy())
