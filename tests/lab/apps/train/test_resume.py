"""Interrupted and resumed equals uninterrupted, to the bit; and what is said where it cannot."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.main import main
from superdex.lab.apps.train.checkpoints import CheckpointStore, load_policy
from superdex.lab.apps.train.command import Train
from superdex.lab.apps.train.config import Stepping
from superdex.lab.apps.train.progress import ProgressLog
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.lab.apps.train.settings import resumed_config
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.rollouts import EpisodeStatistics
from superdex.lab.gym.utils.vector import SceneVectorEnv
from superdex.lab.gym.vector.errors import SharedMemoryError, WorkerError, WorkerTimeoutError
from tests.lab.apps import own_tasks
from tests.lab.apps.train import runs
from tests.lab.apps.train.test_parts import make_config

OWN = own_tasks.__name__


@pytest.fixture
def copy(finished, tmp_path):
    """A copy of the finished run, to be changed."""
    return shutil.copytree(finished, tmp_path / "copy")


FAR = 10**9
"""A number of steps so large that training is under way for certain."""


ON_A_TERMINAL = """
import fcntl, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the terminal is that of this session
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored, where tests run under nohup
from superdex.lab.apps.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_in_a_process_of_its_own(tmp_path):
    path = tmp_path / "run"
    process = runs.start(runs.arguments(path, checkpoint_every=FAR, total_steps=FAR))
    runs.wait_for_iteration(process, path, 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert "saving after this iteration" in err
    newest = CheckpointStore(RunDirectory(path).checkpoints).newest()
    assert newest is not None
    assert newest.steps > 0
    assert f"Interrupted at {newest.steps:,} steps, and saved. To continue:\n  superdex train --resume {path}" in out
    goal = newest.steps + 2 * runs.STEPS_PER_ITERATION
    assert runs.resume(path, "--total-steps", str(goal)) == 0
    assert main(runs.arguments(tmp_path / "whole", checkpoint_every=FAR, total_steps=goal)) == 0
    runs.assert_same_run(path, tmp_path / "whole")


def test_closed_terminal_saves_and_ends_the_run(tmp_path):
    path = tmp_path / "run"
    args = runs.arguments(path, checkpoint_every=FAR, total_steps=FAR)
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)

    def read():
        with suppress(BlockingIOError):
            os.read(ours, 2**16)

    with subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL, *args], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        try:
            os.close(theirs)
            runs.wait_for_iteration(process, path, 2, meanwhile=read)
            os.close(ours)  # upon which the system sends SIGHUP
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
    assert CheckpointStore(RunDirectory(path).checkpoints).newest().steps >= 2 * runs.STEPS_PER_ITERATION


def test_killed_while_it_trains(tmp_path):
    path = tmp_path / "run"
    process = runs.start(runs.arguments(path, checkpoint_every=runs.STEPS_PER_ITERATION, total_steps=FAR))
    runs.wait_for_iteration(process, path, 2)
    process.kill()
    process.communicate(timeout=60)
    run = RunDirectory(path)
    for directory in (run.path, run.checkpoints, run.best_policy.parent):
        (directory / ".unfinished-file").touch()
    goal = CheckpointStore(run.checkpoints).newest().steps + 2 * runs.STEPS_PER_ITERATION

    assert runs.resume(path, "--total-steps", str(goal)) == 0
    assert main(runs.arguments(tmp_path / "whole", total_steps=goal)) == 0

    runs.assert_same_run(path, tmp_path / "whole")
    assert not list(path.rglob(".unfinished-*"))


def test_run_that_lacks_its_end_only(copy, finished, capsys):
    made = ["summary.json", "learning_curve.png"]
    for name in made:
        (copy / name).unlink()

    assert runs.resume(copy) == 0

    runs.assert_same_run(copy, finished)
    assert json.loads((copy / "summary.json").read_text()) == json.loads((finished / "summary.json").read_text())
    assert (copy / "learning_curve.png").exists()
    capsys.readouterr()
    assert runs.resume(copy) == 2
    assert "to continue it, --total_steps must be larger" in capsys.readouterr().err


def test_goal_behind_a_run_is_refused_even_if_it_lacks_its_end(copy, capsys):
    (copy / "summary.json").unlink()
    assert runs.resume(copy, "--total-steps", "1") == 2
    assert "to continue it, --total_steps must be larger, got 1." in capsys.readouterr().err


def test_summary_is_of_the_end_only(copy, interrupted_after):
    summary = json.loads((copy / "summary.json").read_text())
    interrupted_after(summary["iterations"] + 1)
    assert runs.resume(copy, "--total-steps", str(summary["steps"] + 10 * runs.STEPS_PER_ITERATION)) == 0
    assert not (copy / "summary.json").exists()


def test_worker_processes_and_then_another_split(finished, tmp_path, interrupted_after):
    path = tmp_path / "run"
    interrupted_after(4)
    assert main(runs.arguments(path, num_workers=2)) == 0
    interrupted_after(7)
    assert runs.resume(path) == 0
    assert json.loads((path / "config.json").read_text())["stepping"]["num_workers"] == 2
    interrupted_after(None)
    assert runs.resume(path, "--num-workers", "0") == 0

    runs.assert_same_run(path, finished)


def test_what_steps_a_resumed_run_follows_from_its_flags():
    on_ray = Stepping(num_workers=2, num_threads=8, ray=True, ray_address="auto")
    config = make_config(stepping=on_ray)
    changes = {
        Train(): on_ray,
        Train(num_workers=4): Stepping(num_workers=4, num_threads=8, ray=True, ray_address="auto"),
        Train(num_workers=0): Stepping(num_threads=8),
        Train(no_ray=True): Stepping(num_workers=2, num_threads=8),
        Train(no_ray=True, num_workers=4): Stepping(num_workers=4, num_threads=8),
        Train(num_threads=2, ray=()): Stepping(num_workers=2, num_threads=2, ray=True),
        Train(ray=("a:1",)): Stepping(num_workers=2, num_threads=8, ray=True, ray_address="a:1"),
    }
    for command, expected in changes.items():
        assert resumed_config(config, command._settings(), "run", steps=0, finished=False).stepping == expected


def test_best_policy_and_what_is_fair_survive_resuming(tmp_path, monkeypatch, interrupted_after):
    monkeypatch.setattr(EpisodeStatistics.__init__, "__defaults__", (runs.NUM_ENVS,))  # the window
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    assert main(runs.arguments(whole)) == 0
    for iteration in (5, 9):
        interrupted_after(iteration)
        assert (main(runs.arguments(parted)) if iteration == 5 else runs.resume(parted)) == 0
    interrupted_after(None)
    assert runs.resume(parted) == 0

    runs.assert_same_run(parted, whole)
    records = [CheckpointStore(RunDirectory(path).checkpoints).newest().read_record() for path in (whole, parted)]
    for record in records:
        assert record.first_episodes >= runs.NUM_ENVS
        assert record.best_return == load_policy(whole).info.return_mean
    assert records[0].first_episodes == records[1].first_episodes


def test_second_ctrl_c_stops_at_once(tmp_path, interrupted_after, capsys):
    path = tmp_path / "run"
    interrupted_after(5, times=2)

    assert main(runs.arguments(path)) == 130

    newest = CheckpointStore(RunDirectory(path).checkpoints).newest()
    assert newest.steps == runs.FLAGS["checkpoint_every"]
    assert (
        f"The last checkpoint is {newest.path}; to continue: superdex train --resume {path}" in capsys.readouterr().err
    )
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_larger_goal_equals_that_goal_from_the_start(copy, tmp_path, capsys):
    goal = runs.TOTAL_STEPS + 3 * runs.STEPS_PER_ITERATION
    assert main(runs.arguments(tmp_path / "long", total_steps=goal)) == 0
    capsys.readouterr()

    assert runs.resume(copy, "--total-steps", str(goal)) == 0

    assert f"goal: {goal:,} steps, before {runs.TOTAL_STEPS:,}" in capsys.readouterr().out
    runs.assert_same_run(copy, tmp_path / "long")


def test_larger_goal_of_a_linear_schedule_is_explained(tmp_path, interrupted_after, capsys):
    path = tmp_path / "run"
    interrupted_after(6)
    assert main(runs.arguments(path, schedule="linear", learning_rate=0.001)) == 0
    capsys.readouterr()
    interrupted_after(7)

    assert runs.resume(path, "--total-steps", str(2 * runs.TOTAL_STEPS)) == 0

    said = "the learning rate falls linearly to 0 at the new goal: it jumps from 0.0005 to 0.00075"
    assert said in capsys.readouterr().out
    rates = [row.learning_rate for row in ProgressLog(RunDirectory(path).progress_file).read()]
    assert rates == pytest.approx([0.001 * (1 - done / 12) for done in range(6)] + [0.00075])


def test_damaged_checkpoint_is_named_with_the_remedy(copy, capsys):
    store = CheckpointStore(RunDirectory(copy).checkpoints)
    newest = store.newest()
    newest.training.write_bytes(newest.training.read_bytes()[:500])

    assert runs.resume(copy, "--total-steps", str(2 * runs.TOTAL_STEPS)) == 2
    assert re.search(rf"cannot go on from {newest.path}: .*remove that directory", capsys.readouterr().err)

    newest.meta.write_text("{")
    assert runs.resume(copy, "--total-steps", str(2 * runs.TOTAL_STEPS)) == 2
    assert re.search(rf"cannot go on from {newest.path}: meta.json is damaged", capsys.readouterr().err)

    shutil.rmtree(newest.path)
    assert runs.resume(copy) == 0


@pytest.mark.parametrize("name", ["training", "environments", "learner", "meta"])
def test_incomplete_checkpoint_is_skipped_and_written_again(copy, finished, name):
    store = CheckpointStore(RunDirectory(copy).checkpoints)
    getattr(store.newest(), name).unlink()
    assert store.newest().steps < runs.TOTAL_STEPS

    assert runs.resume(copy) == 0

    runs.assert_same_run(copy, finished)


@pytest.mark.parametrize("kind", [WorkerError, WorkerTimeoutError, SharedMemoryError])
def test_worker_that_fails_meanwhile_is_no_fault_of_the_checkpoint(copy, kind, monkeypatch):
    error = kind("Worker 0 ended.", 0, range(8))

    def fail(self, state):
        raise error

    monkeypatch.setattr(SceneVectorEnv, "restore_state", fail)
    with pytest.raises(kind) as raised:
        runs.resume(copy, "--total-steps", str(2 * runs.TOTAL_STEPS))
    assert raised.value is error
    assert f"to continue: superdex train --resume {copy}" in error.__notes__[-1]


def test_change_of_libraries_is_told_until_training_goes_on(copy, capsys):
    file = RunDirectory(copy).versions_file
    versions = json.loads(file.read_text())
    versions["libraries"] |= {"torch": "0.1", "numpy": None}
    file.write_text(json.dumps(versions))
    newest = CheckpointStore(RunDirectory(copy).checkpoints).newest()
    meta = newest.meta.read_text()
    goal = runs.TOTAL_STEPS

    def told():
        goal_here = ["--total-steps", str(goal + runs.STEPS_PER_ITERATION)]
        code, printed = runs.resume(copy, *goal_here), capsys.readouterr().out
        return code, re.findall(r"(\S+) was (.*) before: results may differ", printed)

    newest.meta.write_text("{")  # which is noticed late
    changes = [("numpy", "not installed"), ("torch", "0.1")]
    assert told() == (2, changes)
    newest.meta.write_text(meta)
    assert told() == (0, changes)
    goal += runs.STEPS_PER_ITERATION
    assert told() == (0, [])


@pytest.mark.parametrize("text", [None, "", "{", "[1]", '"x"', '{"libraries": 3}', '{"libraries": ["torch"]}', "{}"])
def test_damaged_versions_file_is_as_if_there_were_none(copy, text, capsys):
    file = RunDirectory(copy).versions_file
    file.unlink() if text is None else file.write_text(text)
    assert RunDirectory(copy).changed_libraries() == {}


def test_run_with_a_damaged_versions_file_goes_on(copy):
    RunDirectory(copy).versions_file.write_bytes(b"\xff{")
    assert runs.resume(copy, "--total-steps", str(runs.TOTAL_STEPS + runs.STEPS_PER_ITERATION)) == 0
    assert json.loads(RunDirectory(copy).versions_file.read_text())["libraries"]["torch"]


@pytest.mark.parametrize(
    ("own", "given", "difference"),
    [
        (f"{OWN}:OwnEnv", f"{OWN}:own/Cart-v0", None),
        ((f"{OWN}:OwnEnv", {"steps_per_episode": 7}), f"{OWN}:own/Cart-v3", None),
        ((f"{OWN}:own/Cart-v3", {"free_pole": False}), f"{OWN}:own/Cart", None),
        (
            ("superdex_gym/CartPole-v0", {"free_pole": False}),
            "Ant",
            "superdex_gym/CartPole-v0, not superdex_gym/Ant-v0",
        ),
        (f"{OWN}:own/Cart-v0", f"{OWN}:OwnEnv", None),
        ("superdex_gym/CartPole-v0", f"{CartPoleEnv.__module__}:CartPoleEnv", None),
        (f"{CartPoleEnv.__module__}:CartPoleEnv", "CartPole", None),
        (f"{OWN}:OwnEnv", f"{OWN}:own/Cart-v3", f"{OWN}:OwnEnv, not {OWN}:own/Cart-v3"),
        (f"{OWN}:own/Cart-v3", f"{OWN}:own/Cart-v0", f"{OWN}:own/Cart-v3, not {OWN}:own/Cart-v0"),
        (f"{OWN}:OwnEnv", f"{OWN}:HastyEnv", f"{OWN}:OwnEnv, not {OWN}:HastyEnv"),
        ("superdex_gym/CartPole-v0", f"{OWN}:own/Cart-v0", f"superdex_gym/CartPole-v0, not {OWN}:own/Cart-v0"),
        (
            "superdex_gym/CartPole-v0",
            "CartPoleActuateOnPole",
            "superdex_gym/CartPole-v0, not superdex_gym/CartPoleActuateOnPole-v0",
        ),
    ],
)
def test_task_of_a_resumed_run_may_be_spelled_in_any_way(own, given, difference, tmp_path):
    task_id, cfg = own if isinstance(own, tuple) else (own, {})
    run = RunDirectory.create(tmp_path / "run", make_config(task_id=task_id, cfg=cfg))
    told = "has no checkpoint" if difference is None else f"in {run.path}, the task is {re.escape(difference)}\\."
    with pytest.raises(UserError, match=told):
        Train(task=given, resume=run.path)._train()


def test_second_process_on_a_run_is_refused(copy, capsys):
    with RunDirectory(copy).locked():
        assert runs.resume(copy) == 2
    assert f"The run in {copy} is in use: another process is training it." in capsys.readouterr().err


def test_progress_of_other_columns_is_refused_and_kept(copy, capsys):
    file = RunDirectory(copy).progress_file
    file.write_text(file.read_text().replace("entropy", "surprise"))
    before = file.read_text()

    assert runs.resume(copy, "--total-steps", str(2 * runs.TOTAL_STEPS)) == 2

    err = capsys.readouterr().err
    assert "progress.csv has other columns than this release writes: without entropy and with surprise." in err
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seed", "1"], r"A resumed run keeps its settings: in .*copy, --seed is 0, not 1\."),
        (["--num-envs", "9", "--gamma", "0.5"], r"--num_envs is 8, not 9; --gamma is 0\.99, not 0\.5\."),
        (["Ant"], r"the task is superdex_gym/CartPole-v0, not superdex_gym/Ant-v0\."),
        (["--num-threads-per-worker", "4"], r"--num_threads_per_worker is for workers, of which there are none, got 4"),
        (["--run-dir", "elsewhere"], r"--run_dir is .*copy, not elsewhere"),
        ([], r"has come to 1,536 steps; to continue it, --total_steps must be larger, got 1,536\."),
        (
            ["--total-steps", "1000"],
            r"has come to 1,536 steps; to continue it, --total_steps must be larger, got 1,000\.",
        ),
    ],
)
def test_contradictions_are_refused(copy, flags, message, capsys):
    assert runs.resume(copy, *flags) == 2
    assert re.search(message, capsys.readouterr().err)


def test_what_is_no_run_is_refused(tmp_path, copy, capsys):
    assert runs.resume(tmp_path / "missing") == 2
    assert "missing is not the directory of a training run: it is no directory." in capsys.readouterr().err
    assert runs.resume(tmp_path) == 2
    assert "is not the directory of a training run: it has no config.json." in capsys.readouterr().err
    (copy / "config.json").write_text("{}")
    assert runs.resume(copy) == 2
    assert "config.json cannot be used: it does not describe a training run of this release" in capsys.readouterr().err
