"""A native batch of each task is its environments alone, to the bit, over resets."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from superdex.lab.gym.envs import EnvState
from superdex.lab.gym.utils.vector import SceneVectorEnv
from tests.lab.gym.envs.gymnasium_v5.originals import NAMES, our_class
from tests.lab.gym.vector.comparing import assert_same

NUM, STEPS, LIMIT = 5, 60, 23


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=["next", "same"])
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_on_threads_equals_environments_alone(name: str, mode: AutoresetMode) -> None:
    def make() -> gymnasium.Env:
        return our_class(name)(steps_per_episode=LIMIT)

    alone = SyncVectorEnv([make] * NUM, autoreset_mode=mode)
    batch = SceneVectorEnv([make] * NUM, num_threads=2, autoreset_mode=mode)
    rng, space = np.random.default_rng(0), batch.single_action_space
    assert_same(batch.reset(seed=7), alone.reset(seed=7))
    for step in range(STEPS):
        actions = rng.uniform(space.low, space.high, (NUM, *space.shape)).astype(np.float32)  # type: ignore[attr-defined]
        assert_same(tuple(batch.step(actions)), alone.step(actions), f"step {step}")
    alone.close()
    batch.close()


@pytest.mark.parametrize("name", ["Ant", "Humanoid", "Hopper"])
def test_a_captured_batch_continues_to_the_bit(name: str) -> None:
    make = our_class(name)
    with SceneVectorEnv([make] * NUM, num_threads=2) as batch:
        batch.reset(seed=1)
        actions = [batch.action_space.sample() for _ in range(30)]
        for action in actions[:10]:
            batch.step(action)
        state = batch.capture_state()
        expected = [tuple(batch.step(action)) for action in actions[10:]]
    with SceneVectorEnv([make] * NUM, num_threads=1) as other:
        assert isinstance(state, EnvState)
        other.restore_state(state)
        assert_same([tuple(other.step(action)) for action in actions[10:]], expected)
