"""N rows of a batch are N separate environments, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from superdex.lab.gym.envs import MochiEnv, Sim, Terminate
from superdex.lab.gym.envs.benchmarks import AntEnv, CartPoleEnv, HalfCheetahEnv
from superdex.lab.gym.envs.task_batch import DIVERGED
from tests.lab.gym.envs.tasks import (
    ArmEnv,
    BombEnv,
    PendulumEnv,
    SubstepArmEnv,
    assert_same_info,
    info_of,
    make_batch,
)

NUM = 5
CASES = [
    (CartPoleEnv, {}),
    (CartPoleEnv, {"actuate_on_pole": True, "steps_per_episode": 9}),
    (CartPoleEnv, {"free_pole": False, "use_damping": False}),
    (HalfCheetahEnv, {}),
    (HalfCheetahEnv, {"exclude_current_position_from_observation": False, "use_rest_springs": False}),
    (AntEnv, {}),
    (AntEnv, {"use_rotation_vector": True, "reset_noise_scale": 0.5, "use_low_friction": True}),
    (AntEnv, {"include_contact_in_observation": False}),
    (AntEnv, {"exclude_current_positions_from_observation": False, "terminate_when_unhealthy": False}),
    (ArmEnv, {}),
    (ArmEnv, {"steps_per_episode": 13, "control_frequency": 100}),
    (SubstepArmEnv, {"use_gravity": False}),
]


@pytest.mark.parametrize(
    ("cls", "fields"), CASES, ids=[f"{cls.__name__}-{'-'.join(fields) or 'default'}" for cls, fields in CASES]
)
def test_rows_equal_separate_environments_over_300_steps_with_resets(
    cls: type[MochiEnv], fields: dict[str, Any]
) -> None:
    batch = make_batch([cls(fields) for _ in range(NUM)], num_threads=2)
    alone = [cls(fields, use_shared_scenes=index % 2 == 0) for index in range(NUM)]
    rng = np.random.default_rng(0)
    seeds = [10 + index for index in range(NUM)]
    infos = batch.reset(None, seeds)
    for index, env in enumerate(alone):
        observation, info = env.reset(seed=seeds[index])
        assert np.array_equal(batch.observation[index], observation)
        assert_same_info(info_of(infos, index), info)
    ended = np.zeros(NUM, np.bool_)
    low, high = alone[0].action_space.low - 0.5, alone[0].action_space.high + 0.5
    for step in range(300):
        action = rng.uniform(low, high, (NUM, *low.shape)).astype(np.float32)
        resets = ended | (rng.random(NUM) < 0.02)
        reset_rows, step_rows = np.flatnonzero(resets), np.flatnonzero(~resets)
        ended[:] = False
        if step_rows.size:
            infos = batch.step(None if step_rows.size == NUM else step_rows, action)
            for index in step_rows:
                observation, reward, terminated, truncated, info = alone[index].step(action[index])
                assert np.array_equal(batch.observation[index], observation), (step, index)
                assert batch.reward[index] == reward
                assert batch.terminated[index] == terminated
                assert batch.truncated[index] == truncated
                assert_same_info(info_of(infos, index), info)
                ended[index] = terminated or truncated
        if reset_rows.size:
            seeded = [None if rng.random() < 0.7 else int(rng.integers(1000)) for _ in reset_rows]
            infos = batch.reset(reset_rows, seeded)
            for position, index in enumerate(reset_rows):
                observation, info = alone[index].reset(seed=seeded[position])
                assert np.array_equal(batch.observation[index], observation), (step, index)
                assert_same_info(info_of(infos, position), info)
    for index, env in enumerate(alone):
        assert np.array_equal(batch.batch.physics.state[index], env.batch.physics.state[0])


@pytest.mark.parametrize("cls", [CartPoleEnv, AntEnv, ArmEnv])
def test_rows_of_a_large_batch_equal_separate_environments(cls: type[MochiEnv]) -> None:
    fields = {"use_rotation_vector": True} if cls is AntEnv else {}
    num, looked_at = 601, range(0, 601, 60)
    batch, alone = make_batch([cls(fields) for _ in range(num)], 2), {index: cls(fields) for index in looked_at}
    batch.reset(None, list(range(num)))
    rng = np.random.default_rng(0)
    for index, env in alone.items():
        assert np.array_equal(batch.observation[index], env.reset(seed=index)[0])
    for _ in range(6):
        action = rng.uniform(-1, 1, (num, *alone[0].action_space.shape)).astype(np.float32)
        batch.step(None, action)
        for index, env in alone.items():
            observation, reward, *_ = env.step(action[index])
            assert np.array_equal(batch.observation[index], observation)
            assert batch.reward[index] == reward


def test_rows_that_are_not_reset_keep_everything() -> None:
    batch = make_batch([ArmEnv() for _ in range(4)])
    batch.reset(None, [0, 1, 2, 3])
    batch.step(None, np.zeros((4, 3), np.float32))
    before = [
        batch.batch.physics.state.copy(),
        batch.observation.copy(),
        batch.reward.copy(),
        batch.batch.episode_steps.copy(),
        *(value.copy() for value in batch.batch.task_state.values()),
    ]
    batch.reset(np.array([2]), [5])
    after = [
        batch.batch.physics.state,
        batch.observation,
        batch.reward,
        batch.batch.episode_steps,
        *batch.batch.task_state.values(),
    ]
    for old, new in zip(before, after, strict=True):
        assert np.array_equal(old[[0, 1, 3]], new[[0, 1, 3]])


def test_the_action_array_is_not_changed() -> None:
    batch = make_batch([ArmEnv() for _ in range(2)])
    batch.reset(None, [0, 1])
    action = np.full((2, 3), 9, np.float32)
    batch.step(None, action)
    assert (action == 9).all()


def test_infos_do_not_change_with_later_steps() -> None:
    batch = make_batch([ArmEnv() for _ in range(3)])
    infos = [batch.reset(None, [0, 1, 2])]
    action = np.ones((3, 3), np.float32)
    kept = [{name: np.array(value) for name, value in infos[0].items()}]
    for _ in range(3):
        infos.append(batch.step(None, action))
        kept.append({name: np.array(v) for name, v in infos[-1].items() if isinstance(v, np.ndarray)})
    for given, copied in zip(infos, kept, strict=True):
        for name, value in copied.items():
            assert np.array_equal(given[name], value)


def test_row_shares_its_state_with_the_batch() -> None:
    envs = [ArmEnv() for _ in range(3)]
    batch, twins = make_batch(envs), [ArmEnv() for _ in range(3)]
    for index, env in enumerate(envs):
        env.join(batch.batch, index)
    batch.reset(None, [0, 1, 2])
    for index, twin in enumerate(twins):
        twin.reset(seed=index)
    action = np.full((3, 3), 0.5, np.float32)
    for turn in range(12):
        if turn % 3 == 0:
            batch.step(None, action)
            results = [batch.observation[index].copy() for index in range(3)]
        else:
            results = [env.step(action[0])[0] for env in envs]
        for result, twin in zip(results, twins, strict=True):
            assert np.array_equal(result, twin.step(action[0])[0])
    assert batch.batch.episode_steps.tolist() == [12, 12, 12]
    row = batch.batch.row(1)
    assert np.shares_memory(row.physics.state, batch.batch.physics.state)
    assert np.shares_memory(row.task_state["target"], batch.batch.task_state["target"])
    assert row.task is envs[1]
    envs[1].reset(seed=7)
    assert batch.batch.episode_steps.tolist() == [12, 0, 12]


def test_none_as_a_seed_leaves_the_generator() -> None:
    batch, env = make_batch([ArmEnv() for _ in range(2)]), ArmEnv()
    batch.reset(None, [3, 4])
    env.reset(seed=4)
    batch.reset(None, [9, None])
    assert np.array_equal(batch.observation[1], env.reset()[0])
    batch.reset(np.array([1]), None)
    assert np.array_equal(batch.observation[1], env.reset()[0])


def test_a_row_draws_from_its_environments_np_random() -> None:
    envs = [ArmEnv() for _ in range(3)]
    envs[2].reset(seed=8)
    batch, twins = make_batch(envs), [ArmEnv() for _ in range(3)]
    for index, env in enumerate(envs):
        env.join(batch.batch, index)
    twins[2].reset(seed=8)
    batch.reset(None, [5, 6, None])
    envs[1].np_random = np.random.default_rng(7)
    batch.reset(None, None)
    for index, twin in enumerate(twins):
        if index < 2:
            twin.reset(seed=5 + index)
        else:
            twin.reset()
        if index == 1:
            twin.np_random = np.random.default_rng(7)
        assert np.array_equal(batch.observation[index], twin.reset()[0])
        assert envs[index].np_random.bit_generator.state == twin.np_random.bit_generator.state
    assert [env.np_random_seed for env in envs] == [5, -1, 8]


def test_without_a_seed_every_row_gets_a_generator_of_its_own() -> None:
    envs = [ArmEnv(), ArmEnv()]
    batch = make_batch(envs)
    batch.reset(None, None)
    first, second = (env.np_random for env in envs)
    assert first.bit_generator.state != second.bit_generator.state
    batch.reset(None, None)
    assert envs[0].np_random is first
    assert envs[1].np_random is second


def test_options_reach_the_task() -> None:
    batch = make_batch([ArmEnv() for _ in range(2)])
    batch.reset(None, [0, 1], {"shoulder": 0.4})
    assert batch.batch.physics.field("qpos")[:, 0].tolist() == [0.4, 0.4]
    batch.reset(np.array([1]), [1], None)
    assert batch.batch.physics.field("qpos")[:, 0].tolist() == [0.4, 0.1]


def test_what_is_written_at_reset_is_the_same_for_some_rows_as_for_all() -> None:
    batch = make_batch([ArmEnv() for _ in range(3)])
    batch.reset(None, [0, 1, 2])
    batch.step(None, np.ones((3, 3), np.float32))
    batch.reset(np.array([0, 2]), [0, 2])
    assert batch.batch.task_state["previous"][[0, 2]].tolist() == [1.1, 1.1]


class TestDivergence:
    @pytest.fixture(autouse=True)
    def _in_tmp_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)  # MuJoCo logs its warnings there

    def test_neighbours_of_a_row_that_blows_up_are_untouched(self) -> None:
        batch, calm = (make_batch([BombEnv() for _ in range(4)], 2) for _ in range(2))
        for buffers in (batch, calm):
            buffers.reset(None, [0, 1, 2, 3])
        rng = np.random.default_rng(0)
        for step in range(30):
            action = rng.uniform(-0.5, 0.5, (4, 1)).astype(np.float32)
            calm.step(None, action)
            bad = step % 7 == 3
            if bad:
                action[1] = 1
            infos = batch.step(None, action)
            others = [0, 2, 3]
            assert np.array_equal(batch.observation[others], calm.observation[others])
            assert np.array_equal(batch.reward[others], calm.reward[others])
            assert np.array_equal(batch.terminated, [False, bad, False, False])
            assert np.isfinite(batch.observation).all()
            assert info_of(infos, 1)["terminated_reason"] == (DIVERGED if bad else None)
            if bad:
                assert batch.reward[1] == 0
                assert info_of(infos, 1)["reward_still"] == 0
                batch.reset(np.array([1]), [1])
        assert np.array_equal(batch.batch.physics.state[others], calm.batch.physics.state[others])

    @pytest.mark.parametrize("rows", [None, np.array([0, 2]), np.array([1, 2])])
    def test_it_is_reported_at_the_right_place_among_the_rows_in_play(self, rows: np.ndarray | None) -> None:
        batch = make_batch([BombEnv() for _ in range(3)])
        batch.reset(None, [0, 1, 2])
        infos = batch.step(rows, np.array([[0], [0], [1]], np.float32))
        for row in [0, 1, 2] if rows is None else rows.tolist():
            assert info_of(infos, row)["terminated_reason"] == (DIVERGED if row == 2 else None)

    def test_a_row_can_be_stepped_on_after_it(self) -> None:
        batch = make_batch([BombEnv() for _ in range(2)])
        batch.reset(None, [0, 1])
        batch.step(None, np.array([[0], [1]], np.float32))
        infos = batch.step(None, np.zeros((2, 1), np.float32))
        assert info_of(infos, 1)["terminated_reason"] is None
        assert np.isfinite(batch.observation).all()


class TestReasons:
    def test_they_are_fixed_texts(self) -> None:
        class ChattyEnv(PendulumEnv):
            def _check_stop_criteria(self, sim: Sim, observation: Any, info: Any) -> list[Terminate]:
                return [Terminate(np.ones(sim.num, np.bool_), f"Stopped at {sim.time[0]}")]

        batch = make_batch([ChattyEnv()])
        batch.reset(None, [0])
        for _ in range(255):
            batch.step(None, np.zeros((1, 1), np.float32))
        with pytest.raises(ValueError, match="ChattyEnv gives more than 255 different reasons to stop"):
            batch.step(None, np.zeros((1, 1), np.float32))
