"""The yardstick does the physics of the environments, from the same states, and no other."""

import pytest

from superdex.lab.apps.bench.measuring import Actions
from superdex.lab.apps.bench.raw_loop import RawLoop
from superdex.lab.apps.tasks import find_task
from superdex.lab.gym.utils.vector import SceneVectorEnv


@pytest.mark.parametrize("name", ["Ant", "CartPole", "CartPoleActuateOnPole", "HalfCheetah"])
def test_raw_loop_follows_to_the_bit_through_resets(name):
    num_ended = 0
    env = SceneVectorEnv(find_task(name).factories(5, steps_per_episode=12), num_threads=1)
    with env:
        env.reset(seed=0)
        raw = RawLoop(env, num_threads=2)
        actions = Actions(env.action_space, seed=0)
        for num_steps in [1, 2, 3] * 10:
            result = raw.record([actions.draw() for _ in range(num_steps)])
            assert raw.replay() > 0
            assert raw.has_followed()
            num_ended += result.terminated.sum() + result.truncated.sum()
    assert num_ended >= 10


def test_raw_loop_that_does_less_is_noticed():
    env = SceneVectorEnv(find_task("Ant").factories(3), num_threads=1)
    with env:
        env.reset(seed=0)
        raw = RawLoop(env, num_threads=1)
        raw.num_substeps -= 1
        raw.record([Actions(env.action_space, seed=0).draw()])
        assert not raw.has_followed(), "it has not stepped yet"
        raw.replay()
        assert not raw.has_followed()
