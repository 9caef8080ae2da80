"""The checker as a library: its arguments, its report, and what it leaves behind."""

from __future__ import annotations

import random
from pathlib import Path

import mujoco
import numpy as np
import pytest

from superdex.lab.gym.envs import MochiEnvCfg, SceneManager
from superdex.lab.gym.testing import CHECKS, assert_task_ok, check_task
from superdex.lab.gym.testing.comparing import difference, is_rounding
from superdex.lab.gym.testing.fingerprints import fingerprint
from superdex.lab.gym.testing.models import model_differences
from superdex.lab.gym.testing.scene_names import candidates
from tests.lab.gym.testing import zoo


def test_verdicts_come_in_the_order_of_checks() -> None:
    assert [verdict.check for verdict in check_task(zoo.Healthy)] == [name for name in CHECKS if name != "workers"]
    assert [verdict.check for verdict in check_task(zoo.Healthy, only=["rows", "spaces"])] == ["spaces", "rows"]


def test_a_check_by_itself_reports_what_others_would_explain() -> None:
    for only in CHECKS:
        if only not in ("runs", "workers", "scene_name", "pickling"):
            (verdict,) = check_task(zoo.RaisesInHook, only=[only])
            assert (verdict.status == "failed") == (only not in ("derived_fields", "spaces", "undeclared_state"))
    (verdict,) = check_task(zoo.CountsInAnAttribute, only=["batching"])
    assert verdict.status == "failed"


def test_assertion_tells_verdict_and_remedy() -> None:
    assert_task_ok(zoo.Healthy, only=["spaces"])
    with pytest.raises(AssertionError) as caught:
        assert_task_ok(zoo.CountsInAnAttribute)
    lines = str(caught.value).splitlines()
    assert lines[0] == "CountsInAnAttribute fails 1 of 12 checks:"
    assert lines[1].startswith("undeclared_state: failed: _make_observation keeps state in self.count")
    assert lines[2].startswith("    If it is kept from step to step, declare it by self._declare_state('count'")


def test_configuration_is_as_the_class_takes_it() -> None:
    for cfg in (None, {"size": 0.04}, zoo.Cfg(size=0.04)):
        assert_task_ok(zoo.Healthy, cfg, only=["runs"])
    with pytest.raises(ValueError, match=r"has no field 'sise'\. Did you mean 'size'"):
        check_task(zoo.Healthy, {"sise": 1})


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="There is no check 'row'; there are: runs, "):
        check_task(zoo.Healthy, only=["row"])
    with pytest.raises(TypeError, match="takes a class that derives from MochiEnv"):
        check_task(MochiEnvCfg)  # type: ignore[arg-type]


def test_values_to_try_find_what_cannot_be_guessed() -> None:
    (verdict,) = check_task(zoo.ReadsAName, only=["scene_name"])
    assert verdict.status == "passed"
    assert verdict.message.endswith("not varied, for want of another valid value: floor")
    (verdict,) = check_task(zoo.ReadsAName, only=["scene_name"], try_values={"floor": ["ice"]})
    assert verdict.message == "floor changes the model (geom_friction), but not the scene's name"


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    before = fingerprint(np.random.get_state()), random.getstate(), mujoco.get_mju_user_warning()
    check_task(zoo.Explodes)
    assert (fingerprint(np.random.get_state()), random.getstate(), mujoco.get_mju_user_warning()) == before
    assert list(tmp_path.iterdir()) == []
    assert SceneManager.get_instance("Explodes").scene_count == 0
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


def test_models_differ_by_the_names_of_fields() -> None:
    model = mujoco.MjModel.from_xml_string(zoo.XML.format(size=0.03))
    other = mujoco.MjModel.from_xml_string(zoo.XML.format(size=0.03))
    assert model_differences(model, other) == []
    other.opt.gravity[2] = 0
    other.vis.global_.fovy = 30
    other.dof_damping[0] = 1
    assert sorted(model_differences(model, other)) == ["dof_damping", "opt.gravity", "vis.global_.fovy"]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (True, bool, [False]),
        (0.5, float, [1.0, 1.5, 0.25, -0.5]),
        (None, float | None, [1.0, 10.0]),
        (None, tuple[int, int] | None, [(1, 1), (100, 100)]),
        ((0.0, 1.0), tuple[float, float], [(1.0, 2.0), (1.0, 1.0), (-1.0, 1.0), (0.0, 2.0), (0.0, 2.0)]),
        ("ice", str, []),
    ],
)
def test_candidates_are_other_values(value: object, kind: object, expected: list[object]) -> None:
    given = list(candidates(value, kind))
    assert given[: len(expected)] == expected
    assert bool(given) == bool(expected)


def test_fingerprints_see_changes_within() -> None:
    class Thing:
        __slots__ = ("inner",)

        def __init__(self) -> None:
            self.inner = [{"a": np.zeros(3)}]

    thing = Thing()
    thing.inner.append({"self": thing})  # type: ignore[dict-item]
    before = fingerprint(thing)
    assert fingerprint(thing) == before
    thing.inner[0]["a"][1] = 1
    assert fingerprint(thing) != before
    generator = np.random.default_rng(0)
    before = fingerprint({"generator": generator})
    generator.random()
    assert fingerprint({"generator": generator}) != before


def test_differences_are_told_in_words() -> None:
    assert difference({"a": np.array([1.0, np.nan])}, {"a": np.array([1.0, np.nan])}, "info") == ""
    assert difference({"a": np.array([1, 2])}, {"a": np.array([1, 3])}, "info") == "info['a'][1] is 2 instead of 3"
    assert difference({"a": 1}, {"b": 1}, "info") == "info has a, b in one of them only"
    assert difference([1, True], [1, 1], "info") == "info[1] is a bool instead of a int"
    assert difference(np.zeros(2), np.zeros(3), "reward") == "reward is float64(2,) instead of float64(3,)"
    assert is_rounding(0.1 + 0.2, 0.3)
    assert not is_rounding(1, 2)
