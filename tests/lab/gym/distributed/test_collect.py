"""`RayVectorEnv.collect` gives what `rollouts.collect` gives on one machine, to the bit, whatever dies meanwhile."""

from __future__ import annotations

import time
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded

from superdex.lab.gym.distributed import RayVectorEnv
from superdex.lab.gym.envs.benchmarks import CartPoleEnv, HalfCheetahEnv
from superdex.lab.gym.rollouts import GaussianMlpPolicy, Policy, Rollout, collect
from superdex.lab.gym.utils.vector import SceneVectorEnv, WorkerError, WorkerTimeoutError
from superdex.lab.gym.vector.restart_seeds import RestartSeeds
from tests.lab.gym.distributed.acting import FailingPolicy, MurderousPolicy, RowPolicy, actions, kill
from tests.lab.gym.vector.comparing import assert_same
from tests.lab.gym.vector.mocks import CountingEnv, FaultyEnv

pytestmark = pytest.mark.usefixtures("cluster")

POLE = partial(CartPoleEnv, steps_per_episode=9)
SAME = "SameStep"
Distributed = partial(RayVectorEnv, autoreset_mode=SAME)


def arrays(rollout: Rollout) -> dict[str, np.ndarray]:
    return {field.name: getattr(rollout, field.name) for field in fields(rollout)}


def columns(rollout: Rollout, rows: list[int]) -> dict[str, np.ndarray]:
    """What the rollout has of some environments."""
    chosen = np.isin(rollout.final_environments, rows)
    parts = {
        name: value[:, rows] for name, value in arrays(rollout).items() if value.shape[:2] == rollout.rewards.shape
    }
    finals = {name: value[chosen] for name, value in arrays(rollout).items() if name.startswith("final_")}
    return parts | finals | {"last_observation": rollout.last_observation[rows]}


def cheetah_policy() -> GaussianMlpPolicy:
    rng = np.random.default_rng(0)
    shapes = [(17, 32), (32, 32), (32, 6)]
    layers = tuple((rng.normal(0, 0.3, shape).astype(np.float32), np.zeros(shape[1], np.float32)) for shape in shapes)
    return GaussianMlpPolicy(
        layers=layers,
        activation="tanh",
        log_std=np.full(6, -0.5, np.float32),
        mean=np.zeros(17),
        scale=np.ones(17),
        seed=7,
        low=np.full(6, -1.0, np.float32),
        high=np.full(6, 1.0, np.float32),
    )


@pytest.mark.parametrize(
    ("env_fn", "policy", "split"),
    [(POLE, RowPolicy(2.0), 2), (partial(HalfCheetahEnv, steps_per_episode=15), cheetah_policy(), 3)],
)
def test_a_rollout_is_that_of_one_machine(env_fn: Any, policy: Policy, split: int) -> None:
    """Two in a row, and steps afterwards."""
    with SceneVectorEnv([env_fn] * 6, autoreset_mode=SAME) as env:
        observation, _ = env.reset(seed=2)
        first = collect(env, policy, 20, observation=observation, first_step=100)
        second = collect(env, policy, 11, observation=first.last_observation, first_step=120)
        after = tuple(env.step(actions(env, 0)))
    with Distributed([env_fn] * 6, split, num_threads_per_worker=2, num_cpus_per_worker=1) as env:
        env.reset(seed=2)
        for expected, first_step in ((first, 100), (second, 120)):
            rollout = env.collect(policy, expected.num_steps, first_step=first_step)
            assert_same(arrays(rollout), arrays(expected))
            assert all(array.flags.writeable for array in arrays(rollout).values())
            assert not rollout.restarted.any()
        assert_same(tuple(env.step(actions(env, 0))), after)
    assert len(first.final_steps) > 0


def test_an_actor_that_dies_in_mid_collect_begins_its_part_anew(tmp_path: Path) -> None:
    """All others' parts are those of an undisturbed run, and training goes on."""
    policy, murderous = RowPolicy(2.0), MurderousPolicy(2.0, tmp_path / "done", since=3)
    kept, lost = [0, 1, 2], [3, 4, 5]
    with SceneVectorEnv([POLE] * 6, autoreset_mode=SAME) as env:
        observation, _ = env.reset(seed=2)
        first = collect(env, policy, 10, observation=observation)
        second = collect(env, policy, 10, observation=first.last_observation, first_step=10)
    seeds = RestartSeeds(6)
    seeds.reseed(range(2, 8))
    with SceneVectorEnv([POLE] * 3, autoreset_mode=SAME) as env:
        observation, _ = env.reset(seed=[seeds.draw(environment) for environment in lost])
        anew = collect(env, policy, 10, observation=observation, environments=slice(3, 6))
        then = collect(env, policy, 10, observation=anew.last_observation, first_step=10, environments=slice(3, 6))
    with Distributed([POLE] * 6, 3, on_worker_failure="restart") as env:
        env.reset(seed=2)
        for expected, fresh, first_step, restarted in ((first, anew, 0, lost), (second, then, 10, [])):
            rollout = env.collect(murderous, 10, first_step=first_step)
            assert np.flatnonzero(rollout.restarted).tolist() == restarted
            assert_same(columns(rollout, kept), columns(expected, kept))
            expected_anew = columns(fresh, kept)
            expected_anew["final_environments"] += 3
            assert_same(columns(rollout, lost), expected_anew)
        assert env.worker_restarts == (0, 1)
        kill(env, 0)
        assert len(env.get_attr("np_random_seed")) == 6  # here its death is noticed
        rollout = env.collect(policy, 5, first_step=20)
        assert np.flatnonzero(rollout.restarted).tolist() == kept
        assert not env.step(actions(env, 0)).truncated.any(), "there is nothing left to tell"


def test_a_death_in_mid_collect_is_raised_unless_it_may_restart(tmp_path: Path) -> None:
    with Distributed([POLE] * 6, 3) as env:
        env.reset(seed=2)
        env.collect(RowPolicy(1.0), 2)
        with pytest.raises(WorkerError, match=r"Worker 1 \(environments 3 to 5\) died on node"):
            env.collect(MurderousPolicy(1.0, tmp_path / "never", since=3), 10)
        assert env.closed


def test_bad_calls_change_nothing_and_failing_policies_close() -> None:
    with Distributed([POLE] * 2, 2) as env:
        with pytest.raises(ResetNeeded, match="before the first collect"):
            env.collect(RowPolicy(1.0), 3)
        env.reset(seed=0)
        with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
            env.collect(RowPolicy(1.0), 0)
        with pytest.raises(TypeError, match="The policy cannot be sent to another process"):
            env.collect(lambda *args, generator=(each for each in ()): None, 3)  # type: ignore[arg-type]
        assert env.collect(RowPolicy(1.0), 3).num_steps == 3
        with pytest.raises(LookupError, match="no action for environment") as caught:
            env.collect(FailingPolicy(), 3)
        assert "Raised in worker" in caught.value.__notes__[0]
        with pytest.raises(ClosedEnvironmentError):
            env.collect(RowPolicy(1.0), 3)


def test_other_modes_are_refused() -> None:
    with RayVectorEnv([CountingEnv]) as env:
        env.reset()
        with pytest.raises(ValueError, match=r"collect\(\) needs a vector environment in SAME_STEP mode"):
            env.collect(RowPolicy(1.0, 2), 3)


def test_a_stuck_actor_is_killed_after_the_timeout_for_each_step() -> None:
    """Even one that holds the GIL; `FaultyEnv` does in the fifth step of its episode."""
    with Distributed([partial(FaultyEnv, "spin")], worker_timeout=3) as env:
        env.reset()
        env.collect(RowPolicy(1.0, 2), 4)
        begin = time.monotonic()
        with pytest.raises(WorkerTimeoutError, match=r"worker_timeout = 3 s \(for each step, if it collects\)"):
            env.collect(RowPolicy(1.0, 2), 2)
        assert time.monotonic() - begin >= 2 * 3
