"""Many simulations: each is an `MjData` of its own, whatever runs beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mujoco import batch as mujoco_batch

from superdex.physics import Scene
from superdex.physics.scene_batch import STATE_FIELDS
from tests.physics.models import ALL, CONTACTS, DRIVEN, PENDULUM, compiled, with_sensor, with_sleep

FULL = mujoco.mjtState.mjSTATE_INTEGRATION.value


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo logs its warnings there


@pytest.mark.parametrize("xml", ALL.values(), ids=ALL.keys())
def test_any_number_of_threads_gives_equal_results_to_the_bit(xml: str) -> None:
    rollouts = []
    for num_threads in (1, 2, 5, 0):
        batch, rng = Scene("scene", compiled(xml)).make_batch(11, num_threads), np.random.default_rng(0)
        batch.field("qvel")[:] = rng.normal(size=batch.field("qvel").shape)
        for _ in range(30):
            batch.field("ctrl")[:] = rng.normal(size=batch.field("ctrl").shape)
            batch.step(2)
        rollouts.append(batch.state.copy())
    for rollout in rollouts[1:]:
        assert np.array_equal(rollout, rollouts[0])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sets(st.integers(0, 4)), st.integers(1, 3)), max_size=12), st.integers(0, 99))
def test_rows_stepped_in_any_order_equal_simulations_alone(calls: list[tuple[set[int], int]], seed: int) -> None:
    model = compiled(CONTACTS)
    batch, datas = Scene("scene", compiled(CONTACTS)).make_batch(5, 1), [mujoco.MjData(model) for _ in range(5)]
    velocity = np.random.default_rng(seed).normal(size=(5, model.nv))
    batch.field("qvel")[:] = velocity
    counts = np.zeros(5, np.int64)
    for data, start in zip(datas, velocity, strict=True):
        data.qvel[:] = start
    for chosen, num_substeps in calls:
        rows = np.array(sorted(chosen), np.int64)
        batch.step(num_substeps, rows)
        counts[rows] += num_substeps
        for row in chosen:
            mujoco.mj_step(model, datas[row], num_substeps)
    for row, data in enumerate(datas):
        state = np.empty(batch.state.shape[1])
        mujoco.mj_getState(model, data, state, FULL)
        assert np.array_equal(batch.state[row], state)
    assert np.array_equal(batch.step_count, counts)


SENSORS = '<accelerometer site="imu"/><subtreelinvel body="robot"/>'
MODELS = {
    **ALL,
    "sensors": with_sensor(CONTACTS, SENSORS),
    "euler": CONTACTS.replace("implicitfast", "Euler"),
    "implicit": CONTACTS.replace("implicitfast", "implicit"),
    "rk4": CONTACTS.replace("implicitfast", "RK4"),
    "energy": PENDULUM.replace("<worldbody>", '<option><flag energy="enable"/></option><worldbody>', 1),
}


@pytest.mark.parametrize("xml", MODELS.values(), ids=MODELS.keys())
def test_every_field_that_can_be_tracked_is_the_rows_own(xml: str) -> None:
    model, count, rng = compiled(xml), 4, np.random.default_rng(0)
    scene = Scene("scene", compiled(xml))
    batch, datas = scene.make_batch(count, 1), [mujoco.MjData(model) for _ in range(count)]
    tracked = []
    for name in sorted(mujoco_batch.DATA_FIELDS - STATE_FIELDS):
        try:
            batch.track([name])
        except ValueError as error:
            assert "do not always compute it" in str(error)  # noqa: PT017
        else:
            tracked.append(name)
    assert len(tracked) > 30
    for row, data in enumerate(datas):
        mujoco.mj_setState(model, data, batch.state[row], FULL)
        data.qvel[:] = batch.field("qvel")[row] = rng.normal(size=model.nv)
    for step in range(80):
        if step == 40:  # some leave the ground, some do not
            for row in (0, 2):
                datas[row].qvel[:] = batch.field("qvel")[row] = rng.normal(size=model.nv) * 5
        for row, data in enumerate(datas):
            data.ctrl[:] = batch.field("ctrl")[row] = rng.normal(size=model.nu)
        batch.step(2)
        for row, data in enumerate(datas):
            mujoco.mj_step(model, data, 2)
            for name in tracked:
                expected = np.asarray(getattr(data, name))
                value = batch.field(name)[row].reshape(expected.shape)
                assert np.array_equal(value, expected, equal_nan=expected.dtype.kind == "f"), (name, row, step)


def test_a_field_that_no_sensor_asks_for_is_refused_with_the_remedy() -> None:
    batch = Scene("yard", compiled(CONTACTS)).make_batch(2)
    with pytest.raises(
        ValueError, match=r"Scene 'yard' cannot give 'cfrc_ext'.*Add one of these sensors.*accelerometer"
    ):
        batch.track(["cfrc_ext"])
    with pytest.raises(ValueError, match=r"cannot give 'subtree_linvel'.*subtreelinvel"):
        batch.track(["subtree_linvel"])
    with pytest.raises(ValueError, match="cannot give 'qfrc_inverse'"):
        batch.track(["qfrc_inverse"])
    batch = Scene("yard", compiled(with_sensor(CONTACTS, '<accelerometer site="imu"/>'))).make_batch(2)
    batch.track(["cfrc_ext"])
    batch.step(30)
    assert batch.field("cfrc_ext").shape == (2, 6, 6)


def test_an_untracked_field_is_refused_with_the_remedy() -> None:
    batch = Scene("scene", compiled(PENDULUM)).make_batch(2)
    with pytest.raises(AttributeError, match=r"'xpos' is a derived field that is not tracked.*`derived_fields`"):
        batch.field("xpos")
    batch.track(["xpos"])
    assert batch.field("xpos").shape == (2, 2, 3)
    batch.untrack()
    with pytest.raises(AttributeError, match="not tracked"):
        batch.field("xpos")


def test_an_unknown_field_is_refused_with_the_nearest() -> None:
    batch = Scene("scene", compiled(PENDULUM)).make_batch(2)
    with pytest.raises(AttributeError, match=r"'qposs' is not a field of a simulation\. Did you mean .*'qpos'"):
        batch.field("qposs")
    with pytest.raises(ValueError, match="qposs is not an MjData array field"):
        batch.track(["qposs"])


def test_derived_fields_are_read_only_and_one_substep_behind() -> None:
    model = compiled(PENDULUM)
    batch = Scene("scene", compiled(PENDULUM)).make_batch(2)
    batch.track(["site_xpos"])
    batch.step(9)
    before = batch.state.copy()
    batch.step()
    data = mujoco.MjData(model)
    mujoco.mj_setState(model, data, before[1], FULL)
    mujoco.mj_forward(model, data)
    assert np.array_equal(batch.field("site_xpos")[1], data.site_xpos)
    with pytest.raises(ValueError, match="read-only"):
        batch.field("site_xpos")[:] = 0


def test_a_part_of_a_batch_touches_only_its_rows() -> None:
    scene = Scene("scene", compiled(CONTACTS))
    batch, twin = scene.make_batch(4, 1), scene.make_batch(4, 1)
    row = batch.row(2)
    for simulations, rows in ((row, None), (twin, np.array([2]))):
        simulations.step(5, rows)
    row.field("ctrl")[:] = 0.5
    twin.field("ctrl")[2] = 0.5
    row.step(20)
    twin.step(20, np.array([2]))
    assert np.array_equal(batch.state, twin.state)
    assert np.array_equal(batch.step_count, [0, 0, 25, 0])
    row.reset()
    assert np.array_equal(batch.state, np.tile(scene.initial_state, (4, 1)))
    assert np.array_equal(batch.step_count, [0, 0, 0, 0])


def test_a_row_of_a_row_is_the_same_row() -> None:
    batch = Scene("scene", compiled(PENDULUM)).make_batch(3)
    batch.track(["xpos"])
    row = batch.row(1).row(0)
    row.field("qpos")[:] = 0.25
    row.step()
    assert row.start == 1
    assert np.shares_memory(row.state, batch.state[1])
    assert np.array_equal(row.field("xpos")[0], batch.field("xpos")[1])


def test_reset_of_some_rows_leaves_the_others() -> None:
    scene = Scene("scene", compiled(DRIVEN))
    batch = scene.make_batch(4, 2)
    batch.step(10)
    before = batch.state.copy()
    batch.reset(np.array([0, 3]))
    assert np.array_equal(batch.state[[0, 3]], np.tile(scene.initial_state, (2, 1)))
    assert np.array_equal(batch.state[[1, 2]], before[[1, 2]])
    assert np.array_equal(batch.step_count, [0, 10, 10, 0])


def test_capture_and_restore_move_one_row_to_another() -> None:
    batch = Scene("scene", compiled(CONTACTS)).make_batch(3, 1)
    batch.field("ctrl")[:] = [[0.1], [0.2], [0.3]]
    batch.step(50)
    before = batch.state.copy()
    batch.restore(0, batch.capture(2))
    assert np.array_equal(batch.state[[0, 1, 2]], before[[2, 1, 2]])
    batch.step(50)
    assert np.array_equal(batch.state[0], batch.state[2])


def test_sleeping_rows_reset_like_new_ones() -> None:
    scene = Scene("sleepy", compiled(with_sleep(CONTACTS)))
    batch, fresh = scene.make_batch(2, 1), scene.make_batch(2, 1)
    batch.step(600)
    batch.reset(np.array([1]))
    batch.step(100)
    fresh.step(100)
    assert np.array_equal(batch.state[1], fresh.state[1])


FORKING = """
    import os, signal, mujoco
    from superdex.physics import Scene
    scene = Scene("ball", mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"))
    batch, alone = scene.make_batch(64, num_threads=2), scene.make_batch(64, num_threads=1)
    row = batch.row(3)
    batch.step()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that hangs
        for call in (batch.step, batch.forward, row.step, lambda: batch.step(1, rows=slice(0, 1))):
            try:
                call()
                print("not refused")
            except RuntimeError as error:
                print(error)
        alone.step(5)
        own = scene.make_batch(64, num_threads=2)
        own.step(5)
        assert (own.state == alone.state).all()
        del batch, row  # which MuJoCo would wait for, here and at the exit
    else:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        batch.step(4)
        alone.step(5)
        assert (batch.state == alone.state).all()
"""


def test_a_forked_child_is_refused_a_batch_with_threads_and_ends_well() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    script = [sys.executable, "-c", textwrap.dedent(FORKING)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert all("is a fork" in line and "one that made the batch of scene 'ball'" in line for line in lines)


class TestDiverged:
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e12])
    @pytest.mark.parametrize("name", ["qpos", "qvel"])
    def test_bad_positions_and_velocities_are_found(self, name: str, value: float) -> None:
        batch = Scene("scene", compiled(PENDULUM)).make_batch(4, 2)
        assert batch.diverged() is None
        batch.field(name)[2] = value
        batch.step()
        assert batch.diverged().tolist() == [2]

    def test_bad_controls_are_found(self) -> None:
        batch = Scene("scene", compiled(CONTACTS)).make_batch(3, 1)
        batch.field("ctrl")[0] = np.nan
        batch.field("ctrl")[1] = 1e20
        batch.step()
        assert batch.diverged().tolist() == [0, 1]

    def test_bad_accelerations_are_found(self) -> None:
        batch = Scene("scene", compiled(PENDULUM)).make_batch(3, 1)
        batch.field("qfrc_applied")[1] = 1e300
        batch.step()
        assert batch.diverged().tolist() == [1]

    def test_what_went_bad_in_an_earlier_call_is_not_forgotten(self) -> None:
        batch = Scene("scene", compiled(PENDULUM)).make_batch(3, 1)
        batch.field("qpos")[1] = np.nan
        batch.step()
        batch.step()
        batch.step(1, np.array([0]))
        assert batch.diverged().tolist() == [1]

    @pytest.mark.parametrize("values", [(np.nan, np.nan), (np.inf, -np.inf)])
    def test_a_bad_state_before_any_step_is_found(self, values: tuple[float, float]) -> None:
        batch = Scene("scene", compiled(PENDULUM)).make_batch(3)
        batch.field("qpos")[1], batch.field("qvel")[1] = values
        assert batch.diverged().tolist() == [1]

    def test_huge_but_finite_numbers_do_not_overflow_the_check(self) -> None:
        batch = Scene("scene", compiled(PENDULUM)).make_batch(3)
        batch.field("qpos")[:] = 1.7e308
        assert batch.diverged() is None
        batch.step()
        assert batch.diverged().tolist() == [0, 1, 2]

    def test_a_reset_clears_it(self) -> None:
        batch = Scene("scene", compiled(PENDULUM)).make_batch(3, 1)
        batch.field("qpos")[[0, 1]] = np.nan
        batch.step()
        batch.reset(np.array([0]))
        assert batch.diverged().tolist() == [1]
        batch.reset()
        assert batch.diverged() is None
        batch.step()
        assert batch.diverged() is None

    def test_a_restore_clears_it(self) -> None:
        batch = Scene("scene", compiled(PENDULUM)).make_batch(2, 1)
        handle = batch.capture(1)
        batch.field("qpos")[1] = np.nan
        batch.step()
        batch.restore(1, handle)
        assert batch.diverged() is None

    def test_neighbours_of_a_bad_row_are_untouched(self) -> None:
        batch, twin = (Scene("scene", compiled(CONTACTS)).make_batch(3, 1) for _ in range(2))
        batch.field("qvel")[1] = np.nan
        for _ in range(20):
            batch.step(2)
            twin.step(2)
        assert np.array_equal(batch.state[[0, 2]], twin.state[[0, 2]])
