"""A run from start to end: what it shows and what it leaves behind."""

import json
import re
import textwrap
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from superdex.lab.apps.main import main
from superdex.lab.apps.train.checkpoints import CheckpointStore, load_policy
from superdex.lab.apps.train.fairness import FairWindow
from superdex.lab.apps.train.progress import ProgressLog
from superdex.lab.apps.train.run_directory import RunDirectory
from tests.lab.apps.train import runs

FAIR_AFTER = 6 * runs.N_STEPS
"""Steps of each environment."""


def test_everything_is_in_the_run_directory(finished):
    run = RunDirectory(finished)

    assert {path.name for path in finished.iterdir()} == {
        *(
            ".lock",
            "best",
            "checkpoints",
            "config.json",
            "learning_curve.png",
            "progress.csv",
            "summary.json",
            "tensorboard",
        ),
        "versions.json",
    }
    assert run.read_config().recipe.num_envs == runs.NUM_ENVS
    assert json.loads(run.versions_file.read_text())["libraries"]["torch"]
    assert run.curve.read_bytes().startswith(b"\x89PNG")


def test_progress_has_a_row_per_iteration_and_times_that_add_up(finished):
    rows = ProgressLog(RunDirectory(finished).progress_file).read()

    assert [row.iteration for row in rows] == list(range(1, runs.NUM_ITERATIONS + 1))
    assert [row.steps for row in rows] == [row.iteration * runs.STEPS_PER_ITERATION for row in rows]
    last = rows[-1]
    assert last.episodes > 20
    assert last.length_mean == last.return_mean + 1  # CartPole rewards all steps but the one that ends the episode
    assert 0 < last.stepping_seconds < last.wall_seconds
    assert last.stepping_seconds + last.learning_seconds <= last.wall_seconds
    assert all(np.isfinite(list(vars(last).values())))


def test_tensorboard_has_the_same_figures(finished):
    run = RunDirectory(finished)
    events = EventAccumulator(str(run.tensorboard)).Reload()

    rows = ProgressLog(run.progress_file).read()
    curves = {tag.rpartition("/")[2]: events.Scalars(tag) for tag in events.Tags()["scalars"]}
    assert curves.keys() == vars(rows[0]).keys() - {"iteration", "steps"}  # the steps are its axis
    for name, curve in curves.items():
        expected = [(row.steps, np.float32(getattr(row, name))) for row in rows]
        assert [(event.step, event.value) for event in curve] == expected, name


def test_checkpoints_come_at_the_start_when_due_and_at_the_end(finished):
    checkpoints = CheckpointStore(RunDirectory(finished).checkpoints).all()

    every = runs.FLAGS["checkpoint_every"]
    assert [each.steps for each in checkpoints] == list(range(0, runs.TOTAL_STEPS + 1, every))
    assert [each.resumable for each in checkpoints] == [False] * (len(checkpoints) - 2) + [True, True]


def test_best_policy_is_the_one_with_the_best_mean_return_once_means_are_fair(tmp_path, monkeypatch):
    monkeypatch.setattr(FairWindow, "is_fair", lambda self, statistics, control_steps: control_steps > FAIR_AFTER)
    assert main(runs.arguments(tmp_path / "run")) == 0

    rows = ProgressLog(RunDirectory(tmp_path / "run").progress_file).read()
    best = max((row for row in rows if row.steps > FAIR_AFTER * runs.NUM_ENVS), key=lambda row: row.return_mean)
    info = load_policy(tmp_path / "run").info
    assert info.return_mean == best.return_mean
    assert (info.iteration, info.steps) == (best.iteration - 1, best.steps - runs.STEPS_PER_ITERATION)


def test_without_a_fair_mean_the_best_policy_is_the_last(finished):
    assert load_policy(finished).info.steps == runs.TOTAL_STEPS


def test_off_a_terminal_it_prints_plain_lines(tmp_path, capsys):
    assert main(runs.arguments(tmp_path / "run", total_steps=2 * runs.STEPS_PER_ITERATION)) == 0

    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert re.search(r"^ +num_envs +8 \(recipe: 256\)", printed, re.MULTILINE)
    lines = [line for line in printed.splitlines() if re.match(r" *\d+ %", line)]
    assert [line.split()[0] for line in lines] == ["50", "100"]
    assert re.search(r"steps/s \(stepping \d+%, learning \d+%\)  0:00:0\d left$", lines[0])
    assert "stepping" in printed.split("wall time")[1]


def test_ctrl_c_while_filming_leaves_a_finished_run(tmp_path, monkeypatch, capsys):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("superdex.lab.apps.train.session.record", interrupt)
    args = runs.arguments(tmp_path / "run", total_steps=runs.STEPS_PER_ITERATION)
    args.remove("--no-video")

    assert main(args) == 0

    assert f"no video: interrupted. To make one: superdex play {tmp_path / 'run'} --video" in capsys.readouterr().out
    assert RunDirectory(tmp_path / "run").summary.exists()


def test_task_that_fails_while_filmed_leaves_a_finished_run(tmp_path, monkeypatch, capsys):
    def fail(*args, **kwargs):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("superdex.lab.apps.train.session.record", fail)
    args = runs.arguments(tmp_path / "run", total_steps=runs.STEPS_PER_ITERATION)
    args.remove("--no-video")

    assert main(args) == 0

    told = "no video: ZeroDivisionError: division by zero. To see where: superdex play"
    assert f"{told} {tmp_path / 'run'} --video" in capsys.readouterr().out
    assert RunDirectory(tmp_path / "run").summary.exists()


def test_run_without_a_finished_episode_has_a_best_policy_all_the_same(tmp_path, capsys):
    path = tmp_path / "run"
    assert main(runs.arguments(path, total_steps=32, num_envs=4, n_steps=8)) == 0

    assert "return, mean of the last episodes" in capsys.readouterr().out
    assert json.loads(RunDirectory(path).summary.read_text())["best_return_mean"] is None
    assert load_policy(path).info.label == "iteration 1, 32 steps, return none yet"


def test_own_class_is_trained_in_workers_resumed_and_played(tmp_path, monkeypatch, capsys):
    """The module is in the working directory only, where a user's is."""
    (tmp_path / "my_tasks.py").write_text(
        textwrap.dedent(
            """
            from dataclasses import dataclass

            from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleCfg, CartPoleEnv


            @dataclass(frozen=True, kw_only=True)
            class ShortCfg(CartPoleCfg):
                steps_per_episode: int = 5


            class ShortEnv(CartPoleEnv):
                Cfg = ShortCfg
            """
        )
    )
    monkeypatch.chdir(tmp_path)
    args = runs.arguments(Path("short"), num_workers=2, total_steps=2 * runs.STEPS_PER_ITERATION)
    args[1] = "my_tasks:ShortEnv"
    assert main([*args, "--cfg", "steps_per_episode=4", "free_pole=False"]) == 0
    goal = str(4 * runs.STEPS_PER_ITERATION)
    assert runs.resume(Path("short"), "--total_steps", goal, "--num_workers", "0") == 0
    capsys.readouterr()
    assert runs.resume(Path("short"), "--cfg", "steps_per_episode=5") == 2
    assert (
        "--cfg is {'free_pole': False, 'steps_per_episode': 4}, not {'steps_per_episode': 5}" in capsys.readouterr().err
    )
    assert runs.resume(Path("short"), "--cfg", "free_pole=False", "steps_per_episode=4") == 2
    assert "--total_steps must be larger" in capsys.readouterr().err
    assert main(["play", "short", "--num_episodes", "3"]) == 0
    shown = capsys.readouterr().out
    assert "my_tasks:ShortEnv" in shown
    assert re.search(r"length +4\.0 +0\.0 +4\.0 +4\.0", shown)
