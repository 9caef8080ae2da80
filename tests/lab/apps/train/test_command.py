"""What `superdex train` refuses, before time is wasted; and how a run ends that goes wrong."""

import importlib.util
import os
import re

import pytest

from superdex.lab.apps.main import main
from superdex.lab.apps.train.recipe import Recipe
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from tests.lab.apps.train import runs
from tests.lab.apps.train.test_parts import make_config


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "Name the task to train, as in `superdex train CartPole`; `superdex list` shows all."),
        (["CartPol"], "There is no task 'CartPol'. Did you mean 'CartPole'? `superdex list` shows all."),
        (
            ["CartPole", "--num-workers", "3"],
            "--num_workers must divide the 256 environments evenly, got 3. These do: 1, 2, 4, 8.",
        ),
        (["CartPole", "--num-workers", "-1"], "--num_workers must not be negative, got -1."),
        (["CartPole", "--ray", "--num-workers", "0"], "--ray steps in at least one worker, got --num_workers 0."),
        (
            ["CartPole", "--num-threads-per-worker", "4"],
            "--num_threads_per_worker is for workers, of which there are none, got 4. Give --num_workers, too, or"
            " --num_threads for a batch in this process.",
        ),
        (["CartPole", "--ray", "--no-ray"], "--ray and --no_ray contradict each other: give one of them."),
        (
            ["--ray", "CartPole"],
            "--ray took CartPole for the address of a cluster. Name the task before it: superdex train CartPole --ray.",
        ),
        (
            ["--ray", "auto", "CartPole"],
            "--ray took CartPole for the address of a cluster. Name the task before it:"
            " superdex train CartPole --ray auto.",
        ),
        (["CartPole", "--ray", "a:1", "b:2"], "--ray takes one address or none, got a:1 b:2."),
        (
            ["CartPole", "--ray", "ray://a:1"],
            "--ray takes host:port of a cluster that this machine is a node of, or auto, got ray://a:1.",
        ),
        (["CartPole", "--seed", "-1"], "--seed must be from 0 to 2147483647, got -1."),
        (["CartPole", "--checkpoint-every", "0"], "--checkpoint_every must be at least 1, got 0."),
        (["CartPole", "--learning-rate", "nan"], "--learning_rate must be positive and finite, got nan."),
        (["CartPole", "--gamma", "1.1"], "--gamma must be from 0 to 1, got 1.1."),
        (["CartPole", "--hidden-sizes", "0"], "--hidden_sizes must be at least 1 each, got 0."),
        (["CartPole", "--run-dir", "taken"], "--run_dir taken exists and is not an empty directory."),
        (["CartPole", "--run-dir", "taken/file/run"], "--run_dir taken/file/run cannot be written: Not a directory."),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()

    assert main(["train", *args]) == 2

    captured = capsys.readouterr()
    assert captured.err == f"superdex: error: {message}\n"
    assert captured.out == ""
    assert os.listdir() == ["taken"]


def test_minibatches_must_divide_the_iteration(capsys):
    assert main(["train", "CartPole", "--num-envs", "10", "--n-steps", "10", "--n-minibatches", "7"]) == 2

    said = "--n_minibatches must divide the 100 steps of an iteration (10 environments x 10 steps) into parts"
    assert said in capsys.readouterr().err


def test_missing_extra_is_named(monkeypatch, tmp_path, capsys):
    found = importlib.util.find_spec
    missing = {"torch"}
    monkeypatch.setattr("superdex.lab.apps.extras.find_spec", lambda name: None if name in missing else found(name))
    assert main(runs.arguments(tmp_path / "run")) == 2
    assert "Training needs torch: pip install 'superdex-gym[train]'." in capsys.readouterr().err

    missing = {"ray"}
    monkeypatch.setattr("superdex.lab.apps.extras.find_spec", lambda name: None if name in missing else found(name))
    assert main(runs.arguments(tmp_path / "run", "--ray")) == 2
    assert "--ray needs ray: pip install 'superdex-gym[ray]'." in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_run_in_the_way_is_offered_to_be_resumed(finished, capsys):
    assert main(runs.arguments(finished)) == 2

    assert f"To continue the run in it: --resume {finished}." in capsys.readouterr().err


def test_a_run_without_checkpoint_in_the_way_is_not(tmp_path, capsys):
    run = RunDirectory.create(tmp_path / "run", make_config())
    (run.checkpoints / "step_000000000128").mkdir()
    (run.checkpoints / "step_000000000128" / "training.npz").touch()  # the rest of it is not there

    assert main(runs.arguments(run.path)) == 2

    err = capsys.readouterr().err
    assert "The run in it has no checkpoint to continue from: remove it." in err
    assert "--resume" not in err
    assert runs.resume(run.path) == 2
    assert "has no checkpoint to continue from. Remove it, and begin anew." in capsys.readouterr().err


def test_divergence_ends_the_run_and_says_what_is_left(tmp_path, capsys):
    path = tmp_path / "run"

    assert main(runs.arguments(path, learning_rate=1e30)) == 1

    err = capsys.readouterr().err
    assert "superdex: error: Training diverged" in err
    assert "Begin a new run with a smaller learning rate" in err
    last = path / "checkpoints" / "step_000000000000"
    assert f"Resumed, this run would diverge again; to see its last policy: superdex play {last}" in err
    assert "--resume" not in err


def test_an_error_of_ours_keeps_its_traceback_and_leaves_the_last_checkpoint_and_says_so(tmp_path, monkeypatch):
    path, calls = tmp_path / "run", 0
    rewards = CartPoleEnv._compute_reward_terms

    def fail(self, action, observation, info):
        nonlocal calls
        calls += 1
        if calls > 4 * runs.N_STEPS:
            raise ArithmeticError("no reward today")
        return rewards(self, action, observation, info)

    monkeypatch.setattr(CartPoleEnv, "_compute_reward_terms", fail)

    with pytest.raises(ArithmeticError, match="no reward today") as raised:
        main(runs.arguments(path))
    notes = raised.value.__notes__
    assert notes[-1].endswith(f"step_000000000384; to continue: superdex train --resume {path}")
    assert "superdex check" not in str(notes)  # the task is ours, and so is the bug


def test_a_run_that_never_began_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "run"
    monkeypatch.setattr(CartPoleEnv, "_build_model", lambda self: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        main(runs.arguments(path, num_workers=0))
    assert not path.exists()


def test_a_run_that_never_began_leaves_nothing_behind_a_symbolic_link(tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    monkeypatch.setattr(CartPoleEnv, "_build_model", lambda self: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        main(runs.arguments(tmp_path / "run", num_workers=0))
    assert (tmp_path / "run").is_symlink()
    assert not list((tmp_path / "disk").iterdir())


def test_a_cluster_that_is_not_there_is_named(tmp_path, capsys):
    path = tmp_path / "run"

    assert main(runs.arguments(path, "--ray", "127.0.0.1:1")) == 2

    assert "superdex: error: --ray: There is no Ray cluster at 127.0.0.1:1" in capsys.readouterr().err
    assert not path.exists()


def test_help_shows_every_setting(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])

    printed = capsys.readouterr().out
    for name in Recipe.__dataclass_fields__:
        assert re.search(rf"--{name}\b", printed), name
    assert "None" not in printed
    assert "Environments that step together. (default: the recipe's)" in printed
