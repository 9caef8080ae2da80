"""Hidden files: those of living processes stay, those that were left go, wherever a run begins or goes on."""

import os
import subprocess
import sys

import pytest

from superdex.lab.apps.atomic import UNFINISHED, hold, remove_abandoned, replace_file
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.lab.apps.video import VideoWriter
from tests.lab.apps.films import read_film
from tests.lab.apps.test_video import grey
from tests.lab.apps.train.test_parts import make_config

HOLDER = """
import sys, time
from pathlib import Path
from superdex.lab.apps.atomic import replace_file

def write(path):
    path.write_text("half")
    print(path, flush=True)
    time.sleep(600)

replace_file(Path(sys.argv[1]), write)
"""


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path / "run", make_config())


def hidden(directory):
    return list(directory.rglob(f"{UNFINISHED}*"))


def test_film_that_is_being_made_in_a_run_survives_its_going_on(run):
    with VideoWriter(run.path / "history.mp4", fps=10) as film:
        film.write(grey(0))
        run.remove_leftovers()
        film.write(grey(255))
    assert len(read_film(run.path / "history.mp4").frames) == 2


def test_file_that_is_being_replaced_survives_it_and_keeps_its_permissions(run):
    def write(path):
        run.remove_leftovers()
        path.write_text("whole")
        run.remove_leftovers()

    os.umask(mask := os.umask(0))
    replace_file(run.path / "policy.onnx", write)

    assert (run.path / "policy.onnx").read_text() == "whole"
    assert (run.path / "policy.onnx").stat().st_mode & 0o777 == 0o666 & ~mask
    assert hidden(run.path) == []


def test_file_of_another_process_stays_until_that_is_killed(run):
    command = [sys.executable, "-c", HOLDER, str(run.path / "file")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline()
            run.remove_leftovers()
            assert len(hidden(run.path)) == 1
        finally:
            process.kill()
    run.remove_leftovers()
    assert hidden(run.path) == []


def test_whatever_a_killed_process_left_goes(run):
    for directory in (run.path, run.checkpoints, run.best_policy.parent):
        (directory / f"{UNFINISHED}history-x.mp4").touch()
        (directory / f"{UNFINISHED}7-actor.npz").touch()
        (directory / f"{UNFINISHED}x").mkdir()
        (directory / f"{UNFINISHED}x" / "file").touch()
    run.remove_leftovers()
    assert hidden(run.path) == []


def test_what_is_held_is_removed_once_it_is_let_go(tmp_path):
    path = tmp_path / "file"
    with hold(path):
        remove_abandoned(path)
        assert path.exists()
    remove_abandoned(path)
    assert not path.exists()
    remove_abandoned(path)  # harmless


def test_where_there_are_no_locks_nothing_is_taken_for_abandoned(run, monkeypatch):
    def refuse(*args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    test_film_that_is_being_made_in_a_run_survives_its_going_on(run)
