"""The Gymnasium ids: what they make, and that Gymnasium's own checker passes it."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import superdex.lab.gym
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.registration import NAMESPACE, TASKS, register_tasks

IDS = [f"{NAMESPACE}/{name}" for name in TASKS]

# Gymnasium thinks little of observations without bounds, which these are, and of actions in [-3, 3], CartPole's.
EXPECTED_WARNINGS = (
    "we recommend using a symmetric and normalized space",
    "A Box observation space minimum value is -infinity",
    "A Box observation space maximum value is infinity",
)


def test_the_ids() -> None:
    assert sorted(IDS) == [
        "superdex_gym/Ant-v0",
        "superdex_gym/AntFullObservation-v0",
        "superdex_gym/AntNoContact-v0",
        "superdex_gym/AntRotationVector-v0",
        "superdex_gym/CartPole-v0",
        "superdex_gym/CartPoleActuateOnPole-v0",
        "superdex_gym/GymnasiumAnt-v5",
        "superdex_gym/GymnasiumHalfCheetah-v5",
        "superdex_gym/GymnasiumHopper-v5",
        "superdex_gym/GymnasiumHumanoid-v5",
        "superdex_gym/GymnasiumHumanoidStandup-v5",
        "superdex_gym/GymnasiumInvertedDoublePendulum-v5",
        "superdex_gym/GymnasiumInvertedPendulum-v5",
        "superdex_gym/GymnasiumPusher-v5",
        "superdex_gym/GymnasiumReacher-v5",
        "superdex_gym/GymnasiumSwimmer-v5",
        "superdex_gym/GymnasiumWalker2d-v5",
        "superdex_gym/HalfCheetah-v0",
        "superdex_gym/HalfCheetahFullObservation-v0",
    ]
    assert set(IDS) <= set(gymnasium.registry)
    assert superdex.lab.gym.TASKS is TASKS


@pytest.mark.parametrize("task_id", IDS)
def test_gymnasiums_checker_passes(task_id: str) -> None:
    env = gymnasium.make(task_id)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env.unwrapped, skip_render_check=True)
    unexpected = [str(w.message) for w in caught if not any(text in str(w.message) for text in EXPECTED_WARNINGS)]
    assert unexpected == []
    env.close()


@pytest.mark.parametrize("task_id", IDS)
def test_make_gives_the_task_in_gymnasiums_wrappers(task_id: str) -> None:
    entry_point, fields = TASKS[task_id.removeprefix(f"{NAMESPACE}/")]
    with gymnasium.make(task_id) as env:
        task = env.unwrapped
        assert isinstance(task, MochiEnv)
        assert type(task).__name__ == entry_point.partition(":")[2]
        assert task.cfg == type(task).Cfg(**fields)
        assert env.spec is not None
        assert env.spec.id == task_id
        observation, _ = env.reset(seed=0)
        assert observation in env.observation_space
        observation, reward, *_ = env.step(env.action_space.sample())
        assert observation in env.observation_space
        assert isinstance(reward, float)


def test_make_takes_fields_of_the_configuration() -> None:
    with gymnasium.make("superdex_gym/Ant-v0", use_gravity=False, steps_per_episode=3) as env:
        assert not env.unwrapped.cfg.use_gravity  # type: ignore[attr-defined]
        env.reset(seed=0)
        assert [env.step(np.zeros(8))[3] for _ in range(3)] == [False, False, True]
    with pytest.raises(ValueError, match=r"AntCfg has no field 'use_gravty'\. Did you mean 'use_gravity'"):
        gymnasium.make("superdex_gym/Ant-v0", use_gravty=False)


def test_an_id_can_be_made_again_from_its_spec() -> None:
    with gymnasium.make("superdex_gym/CartPole-v0", actuate_on_pole=True) as env:
        assert env.spec is not None
        with gymnasium.make(env.spec) as again:
            assert again.unwrapped.cfg == env.unwrapped.cfg  # type: ignore[attr-defined]


def test_registering_again_changes_nothing() -> None:
    before = {task_id: gymnasium.registry[task_id] for task_id in IDS}
    register_tasks()
    assert all(gymnasium.registry[task_id] is spec for task_id, spec in before.items())
