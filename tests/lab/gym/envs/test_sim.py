"""What hooks see: the rows in play, the same for all, for some and for one."""

from __future__ import annotations

import numpy as np
import pytest

from superdex.lab.gym.envs import Sim
from superdex.physics import Scene, SceneBatch
from tests.lab.gym.envs.tasks import ARM_XML
from tests.physics.models import DRIVEN, compiled

ROWS = [None, np.array([0, 1, 2, 3]), np.array([1, 3]), np.array([2])]
TRACKED = ("xpos", "site_xpos", "geom_xpos", "sensordata", "actuator_force")


@pytest.fixture
def physics() -> SceneBatch:
    batch, rng = Scene("arm", compiled(ARM_XML)).make_batch(4, 1), np.random.default_rng(0)
    batch.track(TRACKED)
    batch.field("qvel")[:] = rng.normal(size=batch.field("qvel").shape)
    batch.step(5)
    return batch


@pytest.fixture(params=ROWS, ids=["all", "all listed", "some", "one"])
def rows(request: pytest.FixtureRequest) -> np.ndarray | None:
    return request.param


def view(physics: SceneBatch, rows: np.ndarray | None, *, writable: bool = True, **kwargs) -> Sim:
    generators = kwargs.pop("generators", np.empty(physics.count, np.object_))
    return Sim(physics, kwargs.pop("task_state", {}), generators, rows, writable=writable, **kwargs)


def chosen(rows: np.ndarray | None) -> list[int]:
    return list(range(4)) if rows is None else rows.tolist()


def test_reads_the_rows_in_play(physics: SceneBatch, rows: np.ndarray | None) -> None:
    sim, model = view(physics, rows), physics.scene.model
    pick = chosen(rows)
    assert sim.num == len(pick)
    assert sim.model is model
    for name in ("qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "time", *TRACKED):
        assert np.array_equal(getattr(sim, name), physics.field(name)[pick]), name
    body, site, geom = model.body("lower").id, model.site("tip").id, model.geom("puck").id
    assert np.array_equal(sim.body("lower").xpos, physics.field("xpos")[pick, body])
    assert np.array_equal(sim.site("tip").site_xpos, physics.field("site_xpos")[pick, site])
    assert np.array_equal(sim.geom("puck").geom_xpos, physics.field("geom_xpos")[pick, geom])
    assert np.array_equal(sim.actuator("elbow").ctrl, physics.field("ctrl")[pick, 1])
    assert np.array_equal(sim.sensor("puck"), physics.field("sensordata")[pick, 3:6])
    assert np.array_equal(sim.joint("puck").qpos, physics.field("qpos")[pick, 2:9])
    assert np.array_equal(sim.joint("puck").qvel, physics.field("qvel")[pick, 2:8])
    assert np.array_equal(sim.joint("ball").qpos, physics.field("qpos")[pick, 9:13])
    assert np.array_equal(sim.joint("elbow").qvel, physics.field("qvel")[pick, 1:2])


def test_short_names_mean_the_objects_own_fields(physics: SceneBatch) -> None:
    sim = view(physics, None)
    assert np.array_equal(sim.geom("puck").xpos, sim.geom("puck").geom_xpos)
    assert not np.array_equal(sim.geom("puck").xpos, sim.xpos[:, sim.model.geom("puck").id])
    assert np.array_equal(sim.site("tip").xpos, sim.site("tip").site_xpos)
    assert np.array_equal(sim.actuator("elbow").force, sim.actuator_force[:, 1])


def test_fields_of_another_kind_are_refused(physics: SceneBatch) -> None:
    sim = view(physics, None)
    for part, name in ((sim.body("upper"), "qpos"), (sim.geom("puck"), "xfrc_applied"), (sim.site("tip"), "ctrl")):
        with pytest.raises(AttributeError, match=f"'{name}' is not a field of a (body|geom|site); these are: "):
            getattr(part, name)
        with pytest.raises(AttributeError, match=f"'{name}' is not a field of a"):
            setattr(part, name, 0)
    with pytest.raises(AttributeError):
        sim.joint("elbow").ctrl = 1  # type: ignore[attr-defined]


def test_writes_whole_fields_and_parts(physics: SceneBatch, rows: np.ndarray | None) -> None:
    before, sim, pick = physics.state.copy(), view(physics, rows), chosen(rows)
    sim.ctrl = np.arange(2)
    sim.ctrl[:, 1] += sim.qpos[:, 0]
    sim.body("puck").xfrc_applied[:, 2] = 3
    sim.body("lower").xfrc_applied = np.full(6, 0.5)
    sim.joint("elbow").qpos = 0.25
    sim.joint("puck").qvel[:, 0] = 7
    sim.actuator("shoulder").ctrl = 9
    sim.commit()
    model = physics.scene.model
    assert np.array_equal(physics.field("ctrl")[pick, 0], np.full(len(pick), 9))
    assert np.array_equal(physics.field("ctrl")[pick, 1], 1 + physics.field("qpos")[pick, 0])
    puck = np.zeros((len(pick), 6))
    puck[:, 2] = 3
    assert np.array_equal(physics.field("xfrc_applied")[pick, model.body("puck").id], puck)
    assert (physics.field("xfrc_applied")[pick, model.body("lower").id] == 0.5).all()
    assert (physics.field("qpos")[pick, 1] == 0.25).all()
    assert (physics.field("qvel")[pick, 2] == 7).all()
    others = [row for row in range(4) if row not in pick]
    assert np.array_equal(physics.state[others], before[others])


def test_derived_fields_are_read_only_everywhere(physics: SceneBatch, rows: np.ndarray | None) -> None:
    sim = view(physics, rows)
    with pytest.raises(ValueError, match="read-only"):
        sim.xpos[:] = 0
    with pytest.raises(ValueError, match="read-only"):
        sim.body("puck").xpos = 0
    with pytest.raises(ValueError, match="read-only"):
        sim.sensor("imu")[:] = 0
    sim.commit()  # having read them, there is nothing to put back


def test_state_is_read_only_where_it_may_not_be_written(physics: SceneBatch, rows: np.ndarray | None) -> None:
    sim = view(physics, rows, writable=False)
    for write in (
        lambda: sim.qpos.fill(0),
        lambda: setattr(sim, "ctrl", 0),
        lambda: setattr(sim.body("puck"), "xfrc_applied", 0),
        lambda: setattr(sim.joint("elbow"), "qpos", 0),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()


def test_a_read_only_view_leaves_the_batch_writable(physics: SceneBatch) -> None:
    _ = view(physics, None, writable=False).qpos
    physics.field("qpos")[:] = 0.5
    view(physics, None).qpos = 0.25


@pytest.mark.parametrize("name", ["crtl", "xpos", "body_mass"])
def test_misspelt_and_derived_fields_cannot_be_assigned(physics: SceneBatch, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(view(physics, None), name, 0)


def test_unknown_and_untracked_fields_are_refused_with_a_remedy(physics: SceneBatch, rows: np.ndarray | None) -> None:
    sim = view(physics, rows)
    with pytest.raises(AttributeError, match="'cvel' is a derived field that is not tracked: list it in the task's"):
        _ = sim.cvel
    with pytest.raises(AttributeError, match=r"'qposs' is not a field of a simulation\. Did you mean"):
        _ = sim.qposs
    with pytest.raises(KeyError, match="Invalid name 'nose'"):
        sim.body("nose")
    with pytest.raises(KeyError, match="Invalid name 'nose'"):
        sim.sensor("nose")


def test_derived_fields_cannot_be_read_before_the_physics_ran(physics: SceneBatch) -> None:
    sim = view(physics, None, derived=False)
    with pytest.raises(AttributeError, match="_reset cannot read 'xpos'"):
        _ = sim.body("upper").xpos
    assert sim.qpos.shape == (4, 13)


def test_all_inputs_can_be_written() -> None:
    physics = Scene("driven", compiled(DRIVEN)).make_batch(3)
    for rows in (None, np.array([1, 2])):
        sim = view(physics, rows)
        sim.mocap_pos = [[1, 2, 3]]
        sim.mocap_quat = [[0, 1, 0, 0]]
        sim.eq_active = [0, 1]
        sim.userdata = [4, 5, 6]
        sim.qfrc_applied = 0.5
        sim.commit()
    for name, value in (("mocap_pos", [[1, 2, 3]]), ("eq_active", [0, 1]), ("userdata", [4, 5, 6])):
        assert np.array_equal(physics.field(name), np.broadcast_to(value, physics.field(name).shape))


class TestTaskState:
    def state(self) -> dict[str, np.ndarray]:
        return {"target": np.arange(8.0).reshape(4, 2), "count": np.arange(4)}

    def test_may_be_written_in_part_whole_and_by_assignment(self, physics: SceneBatch, rows: np.ndarray | None) -> None:
        state = self.state()
        arrays = dict(state)
        sim = view(physics, rows, writable=False, task_state=state)
        sim.task["target"][:, 0] = 50
        sim.task["count"][:] += 1
        sim.task["count"] = sim.task["count"] * 2
        sim.commit()
        pick = chosen(rows)
        expected = self.state()
        expected["target"][pick, 0] = 50
        expected["count"][pick] = 2 * (expected["count"][pick] + 1)
        for name, array in state.items():
            assert array is arrays[name]
            assert np.array_equal(array, expected[name])

    def test_is_a_mapping(self, physics: SceneBatch, rows: np.ndarray | None) -> None:
        sim = view(physics, rows, task_state=self.state())
        assert set(sim.task) == {"target", "count"}
        assert len(sim.task) == 2
        assert "target" in sim.task

    def test_an_undeclared_name_is_refused_with_the_remedy(self, physics: SceneBatch, rows: np.ndarray | None) -> None:
        sim = view(physics, rows, task_state=self.state())
        with pytest.raises(KeyError, match="The task declared no state 'goal': call _declare_state"):
            _ = sim.task["goal"]
        with pytest.raises(KeyError, match="The task declared no state 'goal'"):
            sim.task["goal"] = 1


class TestDraws:
    def test_each_environment_draws_from_its_own_generator(self, physics: SceneBatch, rows: np.ndarray | None) -> None:
        generators, twins = ([np.random.default_rng(index) for index in range(4)] for _ in range(2))
        sim, pick = view(physics, rows, generators=np.array(generators, np.object_)), chosen(rows)
        uniform, normal, drawn = sim.random(3), sim.standard_normal(2), sim.draw(lambda g: g.integers(10, size=(2, 2)))
        for position, index in enumerate(pick):
            generator = twins[index]
            assert np.array_equal(uniform[position], generator.random(3))
            assert np.array_equal(normal[position], generator.standard_normal(2))
            assert np.array_equal(drawn[position], generator.integers(10, size=(2, 2)))
        for index in range(4):
            assert generators[index].bit_generator.state == twins[index].bit_generator.state
