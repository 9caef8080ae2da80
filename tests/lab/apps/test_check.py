"""`superdex check`: how a task is named, what is printed, and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from superdex.lab.apps.main import main
from superdex.lab.gym.testing import CHECKS

MODULE = "tests.lab.gym.testing.zoo"


def words_of(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", ["CartPoleActuateOnPole", "superdex_gym/CartPoleActuateOnPole-v0"])
def test_registered_task_passes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", name, "--no_workers", "--cfg", "steps_per_episode=50", "use_gravity=false"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"CartPoleEnv ({name})")
    rows = [line.split()[:2] for line in printed.splitlines() if ":" in line]
    assert rows == [[check, "passed:"] for check in CHECKS if check != "workers"]


def test_workers_are_checked_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{MODULE}:Healthy", "--only", "workers", "pickling"]) == 0
    assert "2 workers of 2 equal environments alone" in capsys.readouterr().out


def test_broken_task_is_exit_code_1_with_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{MODULE}:ForgetsAnOption", "--only", "scene_name", "--cfg", "terrain=flat"]) == 1
    printed = words_of(capsys.readouterr().out)
    assert "scene_name failed: terrain changes the model (geom_friction), but not" in printed
    assert "Add 'terrain' to uid_fields" in printed


def test_warnings_are_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{MODULE}:NamesTooMuch", "--only", "scene_name"]) == 0
    assert "warning: reset_noise_scale" in capsys.readouterr().out


def test_modules_are_found_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_own_tasks.py").write_text(f"from {MODULE} import Healthy\n\n\nclass Mine(Healthy):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    assert main(["check", "my_own_tasks:Mine", "--only", "runs"]) == 0
    assert capsys.readouterr().out.startswith("Mine (my_own_tasks:Mine)")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["CartPolle"], "There is no task 'CartPolle'. Did you mean 'CartPole'?"),
        (["no_such_module:Env"], "Module 'no_such_module' cannot be imported: ModuleNotFoundError: No module named"),
        ([f"{MODULE}:Healty"], f"Module '{MODULE}' has no 'Healty', and registers no such id. Did you mean 'Healthy'?"),
        ([f"{MODULE}:Cfg"], f"{MODULE}:Cfg is not a class that derives from MochiEnv. "),
        (
            ["Ant", "--cfg", "use_damping"],
            "--cfg takes FIELD=VALUE, as in --cfg steps_per_episode=100, got 'use_damping'",
        ),
        (["Ant", "--cfg", "use_dampin=1"], "--cfg: AntCfg has no field 'use_dampin'. Did you mean 'use_damping'?"),
        (["Ant", "--cfg", "use_damping=2"], "--cfg: use_damping must be bool, got 2 of type int."),
        (
            ["tests.lab.apps.own_tasks:UnfitEnv"],
            "The defaults of tests.lab.apps.own_tasks:UnfitEnv, those of UnfitCfg, are not valid: simulation_frequency",
        ),
        (["Ant", "--only", "row"], "--only: there is no check 'row'. Did you mean 'rows'?"),
        (["Ant", "--only", "workers", "--no_workers"], "--only workers leaves nothing to check with --no_workers."),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *args]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"superdex: error: {message}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_task_is_required() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["check"])
    assert caught.value.code == 2
