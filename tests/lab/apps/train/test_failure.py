"""A task that fails: what is told of it, here and in workers, and what is left of its run."""

import re

import pytest

from superdex.lab.apps.failure import own_part
from superdex.lab.apps.main import main
from superdex.lab.apps.tasks import find_task
from tests.lab.apps import own_tasks

NAME = f"{own_tasks.__name__}:OwnEnv"


def train(path, broken, *flags):
    flags = ["--run-dir", str(path), "--no-video", "--checkpoint-every", "128", *flags]
    return main(["train", NAME, "--cfg", f"broken={broken}", *flags])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_own_part_of_the_traceback_is_shown(num_workers, tmp_path, capsys):
    path = tmp_path / "run"

    assert train(path, "reward", "--num-workers", str(num_workers)) == 1

    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"superdex: error: the task {NAME} failed."
    frames = [line for line in lines if line.startswith("  File")]
    assert [frame.rpartition(" ")[2] for frame in frames] == [
        "_compute_reward_terms",
        "helper",
        "_compute_reward_terms",
    ]
    assert all(frame.startswith(f'  File "{own_tasks.__file__}", line ') for frame in frames)
    assert "ZeroDivisionError: division by zero" in lines
    assert sum("Raised in worker" in line for line in lines) == (num_workers > 0)
    first = path / "checkpoints" / "step_000000000000"
    assert lines[lines.index(f"{own_tasks.__name__}.OwnError: no reward today") + 1 :] == [
        f"Raised in a native batch of {8 // max(1, num_workers)} x OwnEnv.",
        *[line for line in lines if re.fullmatch(r"Raised in worker [01]\.", line)],
        f"To see what is wrong with the task: superdex check {NAME} --cfg broken=reward",
        f"The last checkpoint is {first}; to continue: superdex train --resume {path}",
    ]


def test_misuse_of_this_library_is_shown_where_it_is(tmp_path, capsys):
    """Frames of ours after the task's own are left out, too."""
    path = tmp_path / "run"

    assert train(path, "late") == 1

    err = capsys.readouterr().err
    assert re.findall(r'File "(.*?)", line \d+, in (.*)', err) == [(own_tasks.__file__, "_apply_action")]
    assert "no such body" in err
    assert f"{path}/checkpoints/step_000000000128; to continue:" in err


@pytest.mark.parametrize(
    ("name", "cfg", "message"),
    [
        (NAME, ["--cfg", "broken=shape"], "Reward term 'upright' must have shape (8,), one value per row, got (8, 1)."),
        (f"{own_tasks.__name__}:BareEnv", [], "BareEnv must define _build_model()."),
    ],
)
def test_broken_rule_is_told_without_a_traceback(name, cfg, message, tmp_path, capsys):
    assert main(["train", name, *cfg, "--run-dir", str(tmp_path / "run"), "--no-video"]) == 1

    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == [f"superdex: error: the task {name} failed.", message]
    assert not any(line.startswith(" ") for line in lines)


def test_run_without_checkpoint_is_removed(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    for name in ("new", "mine"):
        assert train(tmp_path / name, "model") == 1
        err = capsys.readouterr().err
        assert "'OwnEnv' object has no attribute 'no_such_method'" in err
        assert "to continue" not in err
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]


def test_resumed_run_that_fails_is_told_likewise(tmp_path, capsys, monkeypatch):
    path = tmp_path / "run"
    assert main(["train", NAME, "--run-dir", str(path), "--no-video"]) == 0
    monkeypatch.setattr(own_tasks.OwnEnv, "_compute_reward_terms", lambda self, *arguments: own_tasks.helper())

    assert main(["train", "--resume", str(path), "--total-steps", "512", "--no-video"]) == 1

    err = capsys.readouterr().err
    assert f"superdex: error: the task {NAME} failed." in err
    assert f"to continue: superdex train --resume {path}" in err


def test_traceback_from_another_machine_is_known_by_the_module():
    text = (
        "Traceback (most recent call last):\n"
        '  File "/elsewhere/superdex/lab/gym/vector/native.py", line 5, in step\n'
        "    machinery()\n"
        '  File "/home/other/tests/lab/apps/own_tasks.py", line 7, in _reset\n'
        "    own()\n"
        "    ^^^^^\n"
        '  File "/usr/lib/python3/json.py", line 8, in load\n'
        "    library()\n"
        "ValueError: one\n"
        "    and more\n"
    )
    kept = [line for line in text.splitlines() if "native" not in line and "machinery" not in line]
    assert own_part(text, find_task(NAME).env_class) == "\n".join(kept)
    assert own_part(text.replace("own_tasks", "other_tasks"), find_task(NAME).env_class) is None
    assert own_part(text, find_task("CartPole").env_class) is None
