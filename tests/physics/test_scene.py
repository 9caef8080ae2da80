"""A scene's own simulation: an `MjData` by another name, with snapshots."""

from __future__ import annotations

import pickle
import threading

import mujoco
import numpy as np
import pytest

from superdex.physics import Scene
from tests.physics.models import ALL, CONTACTS, DRIVEN, PENDULUM, ROM, compiled, with_sensor, with_sleep

FULL = mujoco.mjtState.mjSTATE_INTEGRATION.value


def drive(rng: np.random.Generator, field, step: int) -> None:
    """Write random inputs of every kind, by a function from names to arrays."""
    field("ctrl")[:] = rng.normal(size=field("ctrl").shape)
    field("qfrc_applied")[:] = rng.normal(size=field("qfrc_applied").shape) * 0.1
    field("xfrc_applied")[1:] = rng.normal(size=field("xfrc_applied")[1:].shape) * 0.1
    field("userdata")[:] = rng.normal(size=field("userdata").shape)
    field("mocap_pos")[:] += rng.normal(size=field("mocap_pos").shape) * 0.01
    if step % 7 == 0 and field("eq_active").size:
        field("eq_active")[-1] = 1 - field("eq_active")[-1]


def state_of(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    state = np.empty(mujoco.mj_stateSize(model, FULL))
    mujoco.mj_getState(model, data, state, FULL)
    return state


def on_row(scene: Scene):
    return lambda name: scene.batch.field(name)[0]


@pytest.fixture(params=ALL)
def xml(request: pytest.FixtureRequest) -> str:
    return ALL[request.param]


class TestStepping:
    def test_equals_a_loop_of_mj_step_to_the_bit(self, xml: str) -> None:
        model = compiled(xml)
        scene, data = Scene("scene", compiled(xml)), mujoco.MjData(model)
        if model.nkey:
            mujoco.mj_resetDataKeyframe(model, data, 0)
        mine, theirs = np.random.default_rng(3), np.random.default_rng(3)
        for step in range(120):
            drive(mine, on_row(scene), step)
            drive(theirs, lambda name: getattr(data, name), step)
            nstep = 1 + step % 3
            scene.step(nstep)
            mujoco.mj_step(model, data, nstep)
            assert np.array_equal(scene.batch.state[0], state_of(model, data)), f"step {step}"
            assert scene.time == data.time

    def test_counts_substeps(self) -> None:
        scene = Scene("scene", compiled(PENDULUM))
        assert scene.step_count == 0
        scene.step()
        scene.step(4)
        assert scene.step_count == 5
        assert scene.time == pytest.approx(0.5 + 5 * scene.model.opt.timestep)

    @pytest.mark.parametrize("nstep", [0, -1])
    def test_refuses_to_advance_by_nothing(self, nstep: int) -> None:
        scene = Scene("scene", compiled(PENDULUM))
        with pytest.raises(ValueError, match=f"at least 1 step, got {nstep}"):
            scene.step(nstep)
        assert scene.step_count == 0

    def test_forward_computes_the_present_without_moving(self, xml: str) -> None:
        scene, model = Scene("scene", compiled(xml)), compiled(xml)
        scene.batch.track(["xpos", "qacc"])
        scene.step(10)
        data = mujoco.MjData(model)
        mujoco.mj_setState(model, data, scene.batch.state[0], FULL)
        mujoco.mj_forward(model, data)
        before = scene.time, scene.step_count, scene.batch.field("qpos").copy()
        scene.forward()
        assert np.array_equal(scene.batch.field("xpos")[0], data.xpos)
        assert np.array_equal(scene.batch.field("qacc")[0], data.qacc)
        assert (scene.time, scene.step_count) == before[:2]
        assert np.array_equal(scene.batch.field("qpos"), before[2])

    def test_starts_from_the_home_keyframe(self) -> None:
        scene = Scene("scene", compiled(PENDULUM))
        assert scene.time == 0.5
        assert scene.batch.field("qpos")[0, 0] == 0.3
        assert scene.batch.field("qvel")[0, 0] == -0.2
        assert scene.batch.field("ctrl")[0, 0] == 0.7

    def test_starts_from_the_defaults_without_a_home_keyframe(self) -> None:
        model = compiled(PENDULUM.replace('name="home"', 'name="other"'))
        scene = Scene("scene", model)
        assert np.array_equal(scene.initial_state, state_of(model, mujoco.MjData(model)))

    def test_initial_state_cannot_be_changed(self) -> None:
        scene = Scene("scene", compiled(PENDULUM))
        with pytest.raises(ValueError, match="read-only"):
            scene.initial_state[0] = 1

    def test_a_model_changed_later_changes_no_simulation_old_or_new(self) -> None:
        scene, untouched = Scene("scene", compiled(PENDULUM)), Scene("scene", compiled(PENDULUM))
        scene.step()
        untouched.step()
        scene.model.opt.gravity[:] = 0
        batch, expected = scene.make_batch(2, 1), untouched.make_batch(2, 1)
        row = scene.acquire_row()
        for simulation in (scene, batch, row, untouched, expected):
            simulation.step(20)
        assert np.array_equal(batch.state, expected.state)
        assert np.array_equal(row.state[0], expected.state[0])
        assert np.array_equal(scene.batch.field("qpos"), untouched.batch.field("qpos"))

    def test_repr_names_the_scene(self) -> None:
        assert repr(Scene("bench", compiled(PENDULUM))) == "Scene('bench', nq=1, nv=1, nu=1)"


class TestSnapshots:
    def test_the_steps_after_a_restore_are_those_after_the_capture(self, xml: str) -> None:
        scene = Scene("scene", compiled(xml))
        rng = np.random.default_rng(0)
        for step in range(40):
            drive(rng, on_row(scene), step)
            scene.step()
        handle = scene.capture_state()
        trajectories = []
        for _ in range(2):
            rng, states = np.random.default_rng(1), []
            for step in range(60):
                drive(rng, on_row(scene), step)
                scene.step()
                states.append(scene.batch.state[0].copy())
            trajectories.append(states)
            scene.restore_state(handle)
        assert np.array_equal(*trajectories)

    def test_a_restore_with_tracked_fields_changes_nothing_of_the_future(self, xml: str) -> None:
        scenes = Scene("plain", compiled(xml)), Scene("tracking", compiled(xml))
        scenes[1].batch.track(["xpos", "qacc", "cvel"])
        for scene in scenes:
            scene.step(30)
            handle = scene.capture_state()
            scene.step(30)
            scene.restore_state(handle)
            scene.step(30)
        assert np.array_equal(scenes[0].batch.state, scenes[1].batch.state)

    def test_a_restore_shows_the_derived_fields_of_the_restored_state(self) -> None:
        scene = Scene("scene", compiled(CONTACTS))
        scene.batch.track(["xpos"])
        handle = scene.capture_state()
        scene.forward()
        expected = scene.batch.field("xpos").copy()
        scene.step(50)
        scene.restore_state(handle)
        assert np.array_equal(scene.batch.field("xpos"), expected)

    def test_clock_and_counter_are_rewound(self) -> None:
        scene = Scene("scene", compiled(PENDULUM))
        scene.step(3)
        handle = scene.capture_state()
        time = scene.time
        scene.step(5)
        scene.restore_state(handle)
        assert scene.time == time
        assert scene.step_count == handle.step_count == 3

    @pytest.mark.parametrize(
        ("xml", "name"),
        [
            (CONTACTS, name)
            for name in ("qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "qacc_warmstart", "time")
        ]
        + [(DRIVEN, name) for name in ("mocap_pos", "mocap_quat", "eq_active", "userdata")],
    )
    def test_covers(self, xml: str, name: str) -> None:
        scene = Scene("scene", compiled(xml))
        scene.step(5)
        value = scene.batch.field(name)
        expected = value.copy()
        assert expected.size
        handle = scene.capture_state()
        value[...] = value + 1
        scene.restore_state(handle)
        assert np.array_equal(value, expected)

    def test_does_not_cover_the_model(self) -> None:
        heavy, light = compiled(PENDULUM), compiled(PENDULUM)
        light.opt.gravity[:] = 0
        heavy_scene, light_scene = Scene("heavy", heavy), Scene("light", light)
        light_scene.restore_state(heavy_scene.capture_state())
        assert np.array_equal(light_scene.model.opt.gravity, [0, 0, 0])
        heavy_scene.step(10)
        light_scene.step(10)
        assert not np.array_equal(heavy_scene.batch.field("qpos"), light_scene.batch.field("qpos"))

    def test_a_handle_is_not_changed_by_what_follows(self) -> None:
        scene = Scene("scene", compiled(PENDULUM))
        handle = scene.capture_state()
        kept = handle.state.copy()
        scene.step(5)
        scene.restore_state(handle)
        scene.step(5)
        assert np.array_equal(handle.state, kept)
        with pytest.raises(ValueError, match="read-only"):
            handle.state[0] = 0

    def test_handles_compare_by_identity_and_can_be_pickled(self) -> None:
        scene = Scene("scene", compiled(PENDULUM))
        first, second = scene.capture_state(), scene.capture_state()
        assert first == first
        assert first != second
        copy = pickle.loads(pickle.dumps(first))
        scene.step(3)
        scene.restore_state(copy)
        assert np.array_equal(scene.batch.state[0], first.state)

    def test_a_foreign_handle_is_refused_naming_both_scenes(self) -> None:
        pendulum, contacts = Scene("one", compiled(PENDULUM)), Scene("two", compiled(CONTACTS))
        before = contacts.batch.state.copy()
        with pytest.raises(ValueError, match=r"snapshot of scene 'one' cannot be restored into scene 'two'"):
            contacts.restore_state(pendulum.capture_state())
        assert np.array_equal(contacts.batch.state, before)

    def test_states_of_equal_size_but_other_meaning_are_foreign(self) -> None:
        userdata = Scene("userdata", compiled(PENDULUM.replace("<worldbody>", '<size nuserdata="1"/><worldbody>')))
        activation = PENDULUM.replace("<motor ", '<general dyntype="integrator" ')
        assert activation != PENDULUM
        activated = Scene("activation", compiled(activation.replace('ctrl="0.7"', "")))
        assert userdata.initial_state.size == activated.initial_state.size
        with pytest.raises(ValueError, match="differ in structure"):
            activated.restore_state(userdata.capture_state())

    def test_renamed_bodies_are_another_structure(self) -> None:
        scene, renamed = Scene("a", compiled(PENDULUM)), Scene("b", compiled(PENDULUM.replace('"pole"', '"beam"')))
        with pytest.raises(ValueError, match="'a' cannot be restored into scene 'b'"):
            renamed.restore_state(scene.capture_state())

    def test_a_rom_actor_is_refused_with_the_stated_sentence(self) -> None:
        scene = Scene("soft", compiled(ROM))
        assert scene.has_rom_actors
        with pytest.raises(RuntimeError) as error:
            scene.capture_state()
        assert str(error.value).startswith("State capture is not supported for scenes with ROM actors.")
        assert "'blob'" in str(error.value)
        assert "use_shared_scenes=False" in str(error.value)

    def test_a_rom_scene_steps_like_mj_step(self) -> None:
        model = compiled(ROM)
        scene, data = Scene("soft", compiled(ROM)), mujoco.MjData(model)
        for _ in range(30):
            scene.step()
            mujoco.mj_step(model, data)
        assert np.array_equal(scene.batch.state[0], state_of(model, data))

    def test_a_sleep_enabled_model_is_refused(self) -> None:
        scene = Scene("sleepy", compiled(with_sleep(CONTACTS)))
        with pytest.raises(RuntimeError, match="not supported for scenes with sleep or IPC enabled: scene 'sleepy'"):
            scene.capture_state()

    def test_a_sleep_enabled_model_steps_like_mj_step(self) -> None:
        model = compiled(with_sleep(CONTACTS))
        scene, data = Scene("sleepy", compiled(with_sleep(CONTACTS))), mujoco.MjData(model)
        for _ in range(300):
            scene.step()
            mujoco.mj_step(model, data)
        assert np.array_equal(scene.batch.state[0], state_of(model, data))


class TestRowsOfOneSimulation:
    def test_two_threads_never_take_the_same_one(self) -> None:
        """The other thread comes when this one has just seen that there is one row left."""
        scene = Scene("contacts", compiled(CONTACTS))
        scene.acquire_row()
        last, taken = scene.acquire_row(), []
        other = threading.Thread(target=lambda: taken.append(scene.acquire_row()))

        class LastRow(list):
            def __bool__(self) -> bool:
                found = len(self) > 0
                if not other.ident:
                    other.start()
                    other.join(0.2)
                return found

        scene._rows[()].free = LastRow([last])
        assert scene.acquire_row() is last
        other.join()
        assert taken[0] is not last

    def test_a_released_row_comes_back_clean(self) -> None:
        scene = Scene("scene", compiled(CONTACTS))
        row = scene.acquire_row()
        row.track(["xpos"])
        row.field("ctrl")[:] = 1
        row.field("qpos")[0, 0] = np.nan
        row.step(5)
        assert row.diverged() is not None
        scene.release_row(row)
        again = scene.acquire_row()
        assert again.start == row.start
        assert again.diverged() is None
        assert np.array_equal(again.state[0], scene.initial_state)
        assert np.array_equal(again.step_count, [0])
        fresh = Scene("fresh", compiled(CONTACTS)).acquire_row()
        again.step(20)
        fresh.step(20)
        assert np.array_equal(again.state, fresh.state)

    @pytest.fixture(autouse=True)
    def _in_tmp_path(self, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)  # MuJoCo logs its warnings there

    def test_a_released_row_forgets_what_was_tracked(self) -> None:
        scene = Scene("scene", compiled(PENDULUM))
        row = scene.acquire_row()
        row.track(["xpos"])
        row.step()
        row.field("xpos")
        scene.release_row(row)
        with pytest.raises(AttributeError, match="not tracked"):
            scene.acquire_row().field("xpos")

    def test_what_one_row_tracks_another_does_not_see(self) -> None:
        scene = Scene("scene", compiled(PENDULUM))
        rows = [scene.acquire_row() for _ in range(6)]
        rows[4].track(["xpos"])
        with pytest.raises(AttributeError, match="not tracked"):
            rows[5].field("xpos")

    def test_rows_in_use_are_never_handed_out_again(self) -> None:
        scene = Scene("scene", compiled(PENDULUM))
        rows = [scene.acquire_row() for _ in range(300)]
        for index, row in enumerate(rows):
            row.field("qpos")[:] = index
        assert [row.field("qpos")[0, 0] for row in rows] == list(range(300))

    def test_rows_do_not_affect_each_other(self) -> None:
        scene, rng = Scene("scene", compiled(CONTACTS)), np.random.default_rng(0)
        rows = [scene.acquire_row() for _ in range(7)]
        alone = [Scene("alone", compiled(CONTACTS)) for _ in rows]
        for _ in range(40):
            for index in rng.permutation(len(rows)):
                ctrl = rng.normal(size=3)
                for batch in (rows[index], alone[index].batch):
                    batch.field("ctrl")[0] = ctrl
                    batch.step()
        for row, other in zip(rows, alone, strict=True):
            assert np.array_equal(row.state, other.batch.state)
            assert np.array_equal(row.step_count, other.batch.step_count)

    def test_sensor_kinds_are_listed(self) -> None:
        scene = Scene("scene", compiled(with_sensor(CONTACTS, '<accelerometer site="imu"/><clock/>')))
        assert scene.sensor_kinds == {"accelerometer", "clock"}
