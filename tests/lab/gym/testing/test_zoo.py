"""Every broken task of the zoo is caught by exactly the check that is meant for it, and healthy ones by none."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from superdex.lab.apps.tasks import Task, all_tasks
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.testing import CHECKS, Verdict, assert_task_ok, check_task
from tests.lab.gym.envs.tasks import ArmEnv, BombEnv, PendulumEnv, SubstepArmEnv
from tests.lab.gym.testing import zoo

GUIDE = Path(__file__).parents[4] / "docs" / "authoring.md"


def found(verdicts: list[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.status in ("failed", "warning")]


def name_of(case: object) -> str | None:
    return case.__name__ if isinstance(case, type) else None


def guide_module(directory: Path) -> str:
    """A module with the task of the guide; its name."""
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    (directory / "reacher_task.py").write_text("\n".join(block for block in blocks if "class Reacher" in block))
    return "reacher_task"


@pytest.mark.parametrize(("env_class", "check", "text"), zoo.BROKEN, ids=name_of)
def test_broken_task_is_caught_by_its_check_alone(env_class: type[MochiEnv], check: str, text: str) -> None:
    verdicts = check_task(env_class)
    caught = found(verdicts)
    assert [(verdict.check, verdict.status) for verdict in caught] == [(check, "failed")], "\n".join(map(str, caught))
    assert text in caught[0].message
    assert caught[0].remedy
    assert all("\n" not in verdict.message + verdict.remedy for verdict in verdicts)


def test_each_check_has_a_broken_task() -> None:
    assert {check for _, check, _ in zoo.BROKEN} | {"workers"} == set(CHECKS)


@pytest.mark.parametrize(("env_class", "check", "text"), zoo.SUSPICIOUS, ids=name_of)
def test_what_breaks_no_promise_is_a_warning(env_class: type[MochiEnv], check: str, text: str) -> None:
    (warning,) = found(assert_task_ok(env_class))
    assert (warning.check, warning.status) == (check, "warning")
    assert text in warning.message
    assert warning.remedy


@pytest.mark.parametrize("env_class", [*zoo.HEALTHY, ArmEnv, SubstepArmEnv, PendulumEnv], ids=name_of)
def test_healthy_task_passes(env_class: type[MochiEnv]) -> None:
    assert found(check_task(env_class)) == []


def test_task_that_diverges_at_a_bound_passes_with_a_warning() -> None:
    assert [verdict.check for verdict in found(assert_task_ok(BombEnv))] == ["spaces"]


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_registered_task_passes(task: Task) -> None:
    verdicts = check_task(task.env_class, task.fields, workers=task.name == "Ant")
    assert [verdict for verdict in verdicts if verdict.status != "passed"] == []


def test_task_of_the_guide_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(guide_module(tmp_path))
    verdicts = check_task(module.ReacherEnv, {"arm_length": 0.4}, workers=True)
    assert [verdict for verdict in verdicts if verdict.status != "passed"] == []


def test_what_differs_between_processes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    (verdict,) = found(check_task(zoo.DependsOnTheProcess, workers=True))
    assert verdict.check == "workers"
    assert "2 workers differ from environments alone: in the first reset, observation 'extra'" in verdict.message


def test_module_that_workers_cannot_import_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "not_on_the_path.py"
    path.write_text("from tests.lab.gym.testing.zoo import Healthy\n\n\nclass Hidden(Healthy):\n    pass\n")
    spec: Any = importlib.util.spec_from_file_location("not_on_the_path", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "not_on_the_path", module)
    spec.loader.exec_module(module)
    (verdict,) = found(check_task(module.Hidden, workers=True))  # type: ignore[attr-defined]
    assert verdict.check == "workers"
    assert "not_on_the_path" in verdict.message
    assert "that a new process can import" in verdict.remedy
