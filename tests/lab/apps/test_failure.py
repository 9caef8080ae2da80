"""A task that fails, as its author is told by the commands that run it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from superdex.lab.apps.failure import guarded, own_part
from superdex.lab.apps.main import main
from superdex.lab.apps.tasks import find_task
from superdex.lab.apps.train.checkpoints import load_policy
from superdex.lab.apps.train.policy_file import PolicyInfo, save_policy
from superdex.lab.gym.envs import MochiEnv

TASK = """
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv


class FaultyEnv(CartPoleEnv):
    def _apply_action(self, sim, action):
        raise ZeroDivisionError("in the task's own code")
"""
ID = "faulty_tasks:FaultyEnv"


@pytest.fixture
def _faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "faulty_tasks.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("faulty_tasks", None)


def of_faulty_task(finished: Path, path: Path) -> Path:
    """A copy of the run in which all policies are said to be of the faulty task."""
    shutil.copytree(finished, path)
    for file in path.rglob("actor.npz"):
        info = PolicyInfo(task_id=ID, steps=0, iteration=0, return_mean=None, length_mean=None)
        save_policy(file, load_policy(file).policy, info)
    return path


@pytest.mark.usefixtures("_faulty")
@pytest.mark.parametrize("command", ["run", "play", "history"])
def test_author_sees_own_code_and_a_remedy(
    command: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = ID if command == "run" else str(of_faulty_task(finished, tmp_path / "run"))

    assert main([command, subject]) == 1

    told = capsys.readouterr().err
    assert told.startswith(f"superdex: error: the task {ID} failed.\n")
    assert "ZeroDivisionError: in the task's own code\n" in told
    assert told.count('  File "') == 1
    assert told.endswith(f"To see what is wrong with the task: superdex check {ID}\n")
    assert list(tmp_path.rglob(".unfinished-*")) == []


def test_bug_of_ours_keeps_its_traceback() -> None:
    def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        guarded(find_task("CartPole"), work)


TRACEBACK = """Traceback (most recent call last):
  File "{place}/superdex/lab/apps/train/environments.py", line 9, in make_environments
    raise ValueError("a bug")
ValueError: a bug
"""


@pytest.mark.parametrize("place", ["/usr/lib/python3/site-packages", "C:/Lib/site-packages", "/home/me/src"])
def test_our_modules_are_not_taken_for_a_task_of_the_same_name(place: str) -> None:
    task = type("TaskEnv", (MochiEnv,), {"__module__": "environments"})
    assert own_part(TRACEBACK.format(place=place), task) is None
    theirs = TRACEBACK.format(place="/remote").replace("superdex/lab/apps/train", "project")
    assert own_part(theirs, task) == theirs.rstrip()
