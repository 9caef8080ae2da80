"""Training from Python."""

from contextlib import nullcontext

import pytest
import torch

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.train import TrainingDiverged, TrainResult, resume, train
from superdex.lab.apps.train.checkpoints import CheckpointStore, load_policy
from superdex.lab.apps.train.display import Display
from superdex.lab.apps.train.fairness import FairWindow
from superdex.lab.apps.train.interruption import Interruption
from superdex.lab.apps.train.progress import ProgressLog
from superdex.lab.apps.train.run_directory import RunDirectory
from tests.lab.apps import own_tasks
from tests.lab.apps.own_tasks import OwnEnv
from tests.lab.apps.train import runs

QUIET = {"video": False, "verbose": False}


def test_train_is_what_the_command_does(finished, tmp_path, capsys):
    flags = {**runs.FLAGS, "hidden_sizes": [8]}

    result = train("CartPole", run_dir=tmp_path / "run", **flags, **QUIET)

    assert capsys.readouterr().out == ""
    runs.assert_same_run(tmp_path / "run", finished)
    assert isinstance(result, TrainResult)
    assert result.finished
    assert (result.run_dir, result.steps) == (tmp_path / "run", runs.TOTAL_STEPS)
    assert result.best_return_mean == load_policy(result.run_dir).info.return_mean


def test_class_with_hyperparameters_which_arguments_win_over(tmp_path):
    result = train(OwnEnv, cfg={"steps_per_episode": 7}, run_dir=tmp_path / "run", gamma=0.8, seed=3, **QUIET)

    config = RunDirectory(result.run_dir).read_config()
    assert (config.recipe.gamma, config.recipe.total_steps, config.seed) == (0.8, own_tasks.SMALL["total_steps"], 3)
    assert result.length_mean == 7
    more = resume(result.run_dir, total_steps=5e2, **QUIET)
    assert (more.task_id, more.steps) == (f"{own_tasks.__name__}:OwnEnv", 512)


def test_interrupted_training_returns_what_it_came_to(tmp_path, monkeypatch):
    entered = Interruption.__enter__

    def requested(self):
        self.requested = True
        return entered(self)

    monkeypatch.setattr(Interruption, "__enter__", requested)

    result = train(OwnEnv, run_dir=tmp_path / "run", **QUIET)

    assert (result.finished, result.steps) == (False, 128)
    assert not RunDirectory(result.run_dir).summary.exists()


def test_exception_of_the_task_is_raised_as_it_is(tmp_path):
    with pytest.raises(own_tasks.OwnError, match="no reward today") as raised:
        train(OwnEnv, cfg={"broken": "reward"}, run_dir=tmp_path / "run", **QUIET)
    assert "to continue: superdex train --resume" in raised.value.__notes__[-1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: train("CartPole", gama=1), r"There is no setting 'gama'\. Did you mean 'gamma'\?"),
        (lambda: train("CartPole", num_workers="2"), r"--num_workers must be a whole number, got '2'\."),
        (lambda: train("CartPole", seed=0.5), r"--seed must be a whole number, got 0\.5\."),
        (lambda: train("CartPole", ray=3), r"ray must be True, the address of a cluster, or False, got 3\."),
        (lambda: train(own_tasks.WrongEnv), r"WrongEnv\.hyperparameters: --gamma must be from 0 to 1, got 1\.1\."),
        (lambda: resume("missing"), r"missing is not the directory of a training run: it is no directory\."),
    ],
)
def test_wrong_arguments_are_refused_before_anything_begins(call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("broken", ["", "reward"])
def test_threads_of_the_caller_are_as_they_were(broken, tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        with pytest.raises(own_tasks.OwnError) if broken else nullcontext():
            train(OwnEnv, cfg={"broken": broken}, run_dir=tmp_path / "run", num_learning_threads=before, **QUIET)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "error", [TrainingDiverged("no more"), own_tasks.OwnError("no more"), KeyboardInterrupt("no more")]
)
def test_best_policy_since_the_last_checkpoint_is_kept_however_a_run_ends(error, tmp_path, monkeypatch):
    monkeypatch.setattr(
        FairWindow, "is_fair", lambda self, statistics, control_steps: control_steps == 5 * runs.N_STEPS
    )

    def fail(self, row, best):
        if row.iteration == 5:
            raise error

    monkeypatch.setattr(Display, "update", fail)
    with pytest.raises(type(error), match="no more"):
        train("CartPole", run_dir=tmp_path / "run", **{**runs.FLAGS, "hidden_sizes": [8]}, **QUIET)

    run = RunDirectory(tmp_path / "run")
    newest, row = CheckpointStore(run.checkpoints).newest(), ProgressLog(run.progress_file).read()[-1]
    assert newest.steps == 3 * runs.STEPS_PER_ITERATION
    info = load_policy(run.path).info
    assert (info.iteration, info.return_mean) == (4, row.return_mean)
    assert run.curve.exists() == isinstance(error, TrainingDiverged)


def test_resumed_run_keeps_its_settings(finished):
    with pytest.raises(UserError, match=r"A resumed run keeps its settings: in .*, --gamma is 0\.99, not 0\.5\."):
        resume(finished, gamma=0.5)
