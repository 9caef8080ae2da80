"""Rollouts hold what a loop over single environments sees, whatever the split; other use is refused."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import numpy as np
import pytest

from superdex.lab.gym.envs import Sim, StructuredArrays
from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.envs.gymnasium_v5 import HalfCheetahV5Env
from superdex.lab.gym.rollouts import Rollout, collect
from superdex.lab.gym.rollouts.collecting import NonFiniteObservationError
from superdex.lab.gym.utils.vector import SceneVectorEnv
from tests.lab.gym.rollouts.worlds import ChainEnv, Wanderer

NUM_ENVS, NUM_STEPS, LIMIT = 6, 40, 17
POLICY = Wanderer(1, 3.0)


def make(num_envs: int, mode: str = "SameStep", copy: bool = True) -> SceneVectorEnv:
    return SceneVectorEnv(
        CartPoleEnv, num_envs=num_envs, steps_per_episode=LIMIT, autoreset_mode=mode, num_threads=1, copy=copy
    )


@pytest.fixture
def envs() -> Iterator[SceneVectorEnv]:
    with make(NUM_ENVS) as envs:
        yield envs


def collected(part: slice, copy: bool = True, lengths: tuple[int, ...] = (NUM_STEPS,)) -> list[Rollout]:
    """What the environments of a slice of all do, in rollouts of the given lengths one after another."""
    with make(part.stop - part.start, copy=copy) as envs:
        observation, _ = envs.reset(seed=part.start)
        rollouts, step = [], 0
        for length in lengths:
            rollout = collect(envs, POLICY, length, observation=observation, first_step=step, environments=part)
            observation, step = rollout.last_observation, step + length
            rollouts.append(rollout)
        return rollouts


def assert_equal(actual: Rollout, expected: Rollout) -> None:
    for field in dataclasses.fields(Rollout):
        one, other = getattr(actual, field.name), getattr(expected, field.name)
        assert one.dtype == other.dtype, field.name
        assert np.array_equal(one, other), field.name


def test_a_rollout_is_what_single_environments_do() -> None:
    (rollout,) = collected(slice(0, NUM_ENVS))
    ends = zip(rollout.final_steps, rollout.final_environments, strict=True)
    finals = dict(zip(ends, rollout.final_observations, strict=True))
    for index in range(NUM_ENVS):
        env = CartPoleEnv(steps_per_episode=LIMIT)
        observation, _ = env.reset(seed=index)
        for t in range(NUM_STEPS):
            assert np.array_equal(rollout.observations[t, index], observation)
            action = POLICY(observation[None], t, slice(index, index + 1))[0]
            assert np.array_equal(rollout.actions[t, index], action)
            observation, reward, terminated, truncated, _ = env.step(action)
            flags = rollout.rewards[t, index], rollout.terminated[t, index], rollout.truncated[t, index]
            assert flags == (np.float32(reward), terminated, truncated)
            if terminated or truncated:
                assert np.array_equal(finals.pop((t, index)), observation)
                observation, _ = env.reset()
        assert np.array_equal(rollout.last_observation[index], observation)
        env.close()
    assert not finals
    assert rollout.terminated.any()
    assert rollout.truncated.any()


def test_a_task_that_does_not_clip_gets_clipped_actions() -> None:
    with SceneVectorEnv(HalfCheetahV5Env, num_envs=2, autoreset_mode="SameStep", num_threads=1) as envs:
        observation, _ = envs.reset(seed=0)
        beyond = np.full((2, 6), 5, np.float32)
        rollout = collect(envs, lambda observation, step, rows: beyond, 3, observation=observation)
        observation, _ = envs.reset(seed=0)
        rewards = [envs.step(np.ones((2, 6), np.float32)).reward.astype(np.float32) for _ in range(3)]
    assert np.array_equal(rollout.rewards, rewards)
    assert (rollout.actions == 5).all()


@pytest.mark.parametrize("copy", [True, False])
def test_the_split_over_processes_makes_no_difference(copy: bool) -> None:
    (whole,) = collected(slice(0, NUM_ENVS))
    parts = [collected(part, copy)[0] for part in (slice(0, 1), slice(1, 4), slice(4, 6))]
    assert_equal(Rollout.join(parts), whole)
    assert (whole.num_steps, whole.num_envs) == (NUM_STEPS, NUM_ENVS)


def test_joined_fragments_keep_which_episodes_were_lost() -> None:
    parts = [collected(part)[0] for part in (slice(0, 3), slice(3, 6))]
    parts = [dataclasses.replace(part, final_lost=part.final_environments == 1) for part in parts]
    whole = Rollout.join(parts)
    assert np.array_equal(whole.final_lost, np.isin(whole.final_environments, [1, 4]))
    assert 0 < whole.final_lost.sum() < len(whole.final_lost)


def test_finals_are_in_order_of_step_and_environment() -> None:
    (rollout,) = collected(slice(0, NUM_ENVS))
    keys = list(zip(rollout.final_steps, rollout.final_environments, strict=True))
    assert keys == sorted(keys)
    assert len(keys) == (rollout.terminated | rollout.truncated).sum() > NUM_ENVS


def test_rollouts_follow_each_other() -> None:
    (whole,) = collected(slice(0, NUM_ENVS))
    first, second = collected(slice(0, NUM_ENVS), lengths=(15, NUM_STEPS - 15))
    assert np.array_equal(np.concatenate([first.observations, second.observations]), whole.observations)
    assert np.array_equal(np.concatenate([first.actions, second.actions]), whole.actions)
    assert np.array_equal(second.last_observation, whole.last_observation)


def test_a_rollout_without_an_end_has_no_finals() -> None:
    rollout, _ = collected(slice(0, 2), lengths=(1, 1))
    assert rollout.final_observations.shape == (0, 4)
    assert rollout.final_steps.shape == rollout.final_environments.shape == (0,)


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_other_autoreset_modes_are_refused(mode: str) -> None:
    with make(2, mode) as envs:
        observation, _ = envs.reset(seed=0)
        with pytest.raises(ValueError, match=r"collect\(\) needs .* SAME_STEP mode.*autoreset_mode="):
            collect(envs, POLICY, 1, observation=observation)


BAD_POLICIES = {
    "shape (6,)": lambda *_: np.zeros(6, np.float32),
    "got list": lambda *_: [[0.0]] * 6,
    "dtype float32, got complex128": lambda *_: np.zeros((6, 1), np.complex128),
    "NaN or infinity in step 7, for environments [4]. Their observations are finite": lambda *_: np.array(
        [0, 0, 0, 0, np.nan, 0]
    )[:, None],
    "infinity in step 7, for environments [0, 1, 2, 3, 4, 5]. Their": lambda *_: np.full((6, 1), np.inf),
}


@pytest.mark.parametrize("message", BAD_POLICIES)
def test_bad_actions_are_refused_with_what_is_wrong(envs: SceneVectorEnv, message: str) -> None:
    observation, _ = envs.reset(seed=0)
    with pytest.raises(ValueError, match=re.escape(message)):
        collect(envs, BAD_POLICIES[message], 3, observation=observation, first_step=7)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("step", [0, 1, 3])
def test_an_observation_that_is_no_number_is_not_blamed_on_the_policy(value: float, step: int) -> None:
    class Blinding(ChainEnv):
        def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
            count = sim.task["count"]
            bad = (count == step) & (np.arange(len(count)) == 2)
            return {"count": np.where(bad, value, count)[:, None]}, {}

    place = rf"^Environment 32 gave the observation {value} before step {50 + step} of training\. Look at the task"
    rows = slice(30, 34)
    with SceneVectorEnv(Blinding, num_envs=4, num_threads=1, autoreset_mode="SameStep") as envs:
        seen, _ = envs.reset(seed=0)
        with pytest.raises(NonFiniteObservationError, match=place):
            collect(envs, lambda observation, *_: observation, 5, observation=seen, first_step=50, environments=rows)


def test_arguments_that_do_not_fit_are_refused(envs: SceneVectorEnv) -> None:
    observation, _ = envs.reset(seed=0)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        collect(envs, POLICY, 0, observation=observation)
    with pytest.raises(ValueError, match=r"shape \(6, 4\), got shape \(5, 4\)"):
        collect(envs, POLICY, 1, observation=observation[1:])
    for part in (slice(0, 5), slice(0, 12, 2)):
        with pytest.raises(ValueError, match="slice of 6 rows"):
            collect(envs, POLICY, 1, observation=observation, environments=part)


def test_fragments_that_differ_are_not_joined() -> None:
    (short,), (long,) = (collected(slice(0, 1), lengths=(length,)) for length in (2, 3))
    with pytest.raises(ValueError, match="fragment 1 has"):
        Rollout.join([short, long])
    with pytest.raises(ValueError, match="at least one"):
        Rollout.join([])
