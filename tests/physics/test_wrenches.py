"""`compute_wrenches`: the very `cfrc_ext` of `mj_rnePostConstraint` after `mj_step`, and nothing else changed."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from superdex.physics import Scene, compute_wrenches
from superdex.physics.scene_batch import SceneBatch
from tests.physics.models import CONTACTS, DRIVEN

NUM = 4


def models(xml: str, integrator: str) -> tuple[mujoco.MjModel, mujoco.MjModel]:
    """The plain model, and the one that computes wrenches."""
    spec = mujoco.MjSpec.from_string(xml)
    spec.option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    plain = spec.compile()
    compute_wrenches(spec)
    return plain, spec.compile()


def started(model: mujoco.MjModel, num_threads: int = 1) -> SceneBatch:
    batch = Scene("scene", model).make_batch(NUM, num_threads)
    batch.track(["cfrc_ext", "xpos"])
    batch.field("qvel")[:] = np.random.default_rng(0).normal(size=(NUM, model.nv))
    return batch


@pytest.mark.parametrize("integrator", ["Euler", "RK4", "implicit", "implicitfast"])
@pytest.mark.parametrize("xml", [CONTACTS, DRIVEN], ids=["contacts", "driven"])
def test_steps_compute_it_to_the_bit(xml: str, integrator: str) -> None:
    plain, model = models(xml, integrator)
    batch, datas = started(model, 2), [mujoco.MjData(plain) for _ in range(NUM)]
    for data, velocity in zip(datas, batch.field("qvel"), strict=True):
        data.qvel[:] = velocity
    for _ in range(40):
        batch.step(3)
        for row, data in enumerate(datas):
            mujoco.mj_step(plain, data, 3)
            mujoco.mj_rnePostConstraint(plain, data)
            for name in ("cfrc_ext", "xpos", "qpos", "qvel", "qacc_warmstart"):
                assert np.array_equal(batch.field(name)[row], getattr(data, name)), name
    assert np.abs(batch.field("cfrc_ext")).max() > 1


def test_it_is_zero_from_a_reset_to_the_next_step() -> None:
    batch = started(models(CONTACTS, "Euler")[1])
    batch.step(300)
    before = batch.field("cfrc_ext").copy()
    assert before.any(axis=(1, 2)).all()
    rows = np.array([1, 3])
    batch.reset(rows)
    batch.forward(rows)
    assert not batch.field("cfrc_ext")[rows].any()
    assert np.array_equal(batch.field("cfrc_ext")[[0, 2]], before[[0, 2]])
    row = batch.row(2)
    row.forward()
    assert not row.field("cfrc_ext").any()
    batch.step()
    assert batch.field("cfrc_ext")[[0, 2]].any(axis=(1, 2)).all()


@pytest.mark.parametrize("name", ["cacc", "cfrc_int"])
def test_its_companions_are_refused(name: str) -> None:
    batch = Scene("yard", models(CONTACTS, "RK4")[1]).make_batch(2)
    with pytest.raises(ValueError, match=f"cannot give '{name}'.*Add one of these sensors"):
        batch.track([name])


def test_the_remedy_is_named() -> None:
    batch = Scene("yard", models(CONTACTS, "RK4")[0]).make_batch(2)
    with pytest.raises(ValueError, match=r"Or have it computed without one: load_model\(path, .*compute_wrenches\)"):
        batch.track(["cfrc_ext"])
