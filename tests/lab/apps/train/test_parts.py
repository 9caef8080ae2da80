"""The parts of `superdex train`, each by itself."""

import io
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from superdex.lab.apps.atomic import new_directory, replace_file
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tasks import all_tasks, find_task, task_of_class
from superdex.lab.apps.train.config import Stepping, TrainConfig
from superdex.lab.apps.train.curve import draw_learning_curve
from superdex.lab.apps.train.display import LiveDisplay
from superdex.lab.apps.train.environments import make_environments
from superdex.lab.apps.train.fairness import FairWindow
from superdex.lab.apps.train.interruption import NOTICE, Interruption
from superdex.lab.apps.train.policy_file import PolicyInfo
from superdex.lab.apps.train.progress import ProgressLog, ProgressRow
from superdex.lab.apps.train.recipe import Recipe
from superdex.lab.apps.train.recipes import RECIPES, recipe_for
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.rollouts import EpisodeStatistics
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv
from tests.lab.apps.own_tasks import SMALL, OwnEnv


class CartPole(CartPoleEnv):
    """Another task than the registered one of that name."""


def make_row(iteration, **values):
    names = ProgressRow.__dataclass_fields__
    floats = {name: 0.1 * iteration for name in names if name not in ("iteration", "steps", "episodes")}
    return ProgressRow(**{**floats, "iteration": iteration, "steps": 100 * iteration, "episodes": iteration, **values})


def make_config(**values):
    recipe = Recipe(num_envs=8, n_steps=16, n_minibatches=2)
    settings = {"task_id": "superdex_gym/CartPole-v0", "seed": 0, "recipe": recipe, "stepping": Stepping()}
    return TrainConfig(**{**settings, "checkpoint_every": 1000, **values})


def test_recipes_are_of_tasks_and_all_others_get_one():
    assert RECIPES.keys() <= {task.name for task in all_tasks()}
    assert recipe_for(find_task("CartPole")) is RECIPES["CartPole"]
    assert recipe_for(find_task("GymnasiumHumanoid")) == Recipe()


@pytest.mark.parametrize("task", [task for task in all_tasks() if not task.fields], ids=lambda task: task.name)
def test_class_of_ours_is_the_registered_task_and_trained_as_that(task):
    path = f"{task.env_class.__module__}:{task.env_class.__name__}"
    assert task_of_class(task.env_class) == find_task(path) == task
    assert recipe_for(task_of_class(task.env_class, {"steps_per_episode": 7})) is recipe_for(task)


def test_class_of_ones_own_has_the_default_recipe_but_for_its_hyperparameters():
    assert recipe_for(task_of_class(CartPole)) == Recipe()  # a namesake does not get ours
    assert recipe_for(task_of_class(OwnEnv)) == Recipe(**SMALL, gamma=0.9)
    assert recipe_for(find_task(f"{OwnEnv.__module__}:own/Cart")) == Recipe(**SMALL, gamma=0.9)


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        ({"gama": 0.9}, r"OwnEnv\.hyperparameters: There is no setting 'gama'\. Did you mean 'gamma'\?"),
        ({"gamma": 1.1}, r"OwnEnv\.hyperparameters: --gamma must be from 0 to 1, got 1\.1\."),
        ([("gamma", 0.9)], r"OwnEnv\.hyperparameters must be a dict of settings, as in \{'gamma': 0\.98\}, got \["),
    ],
)
def test_wrong_hyperparameters_are_told_with_their_class(hyperparameters, message, monkeypatch):
    monkeypatch.setattr(OwnEnv, "hyperparameters", hyperparameters)
    with pytest.raises(UserError, match=message):
        recipe_for(task_of_class(OwnEnv))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"total_steps": 3.5}, r"--total_steps must be a whole number, got 3\.5\."),
        ({"num_envs": True}, r"--num_envs must be a whole number, got True\."),
        ({"n_steps": math.inf}, r"--n_steps must be a whole number, got inf\."),
        ({"gamma": "0.9"}, r"--gamma must be a number, got '0\.9'\."),
        ({"activation": "elu"}, r"--activation must be relu or tanh, got 'elu'\."),
        ({"normalize_rewards": 1}, r"--normalize_rewards must be True or False, got 1\."),
        ({"hidden_sizes": 64}, r"--hidden_sizes must be several whole numbers, as in \(64, 64\), got 64\."),
        ({"hidden_sizes": (64, 0.5)}, r"--hidden_sizes must be a whole number, got 0\.5\."),
    ],
)
def test_values_of_wrong_types_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        Recipe().with_settings(settings)


def test_numbers_become_plain():
    recipe = Recipe(total_steps=1e6, gamma=1, hidden_sizes=[np.int64(8), 8.0], learning_rate=np.float32(0.5))

    values = recipe.total_steps, recipe.gamma, recipe.hidden_sizes, recipe.learning_rate
    assert repr(values) == "(1000000, 1.0, (8, 8), 0.5)"


def test_config_comes_back_from_its_file():
    config = make_config(recipe=Recipe(hidden_sizes=(3, 4, 5), learning_rate=0.1), stepping=Stepping(num_threads=3))

    assert TrainConfig.from_json(config.to_json()) == config


def test_threads_are_shared_out_over_workers():
    assert Stepping(num_workers=2, num_threads=7).num_threads_per_worker == 3
    assert Stepping(num_workers=4, num_threads=2).num_threads_per_worker == 1
    assert Stepping(ray=True).num_workers == 1
    assert Stepping().num_threads >= 1


@pytest.mark.parametrize(
    ("stepping", "kind", "text"),
    [
        (Stepping(num_threads=1), SceneVectorEnv, "in process, 1 thread"),
        (Stepping(num_workers=2, num_threads=4), HybridVectorEnv, "2 worker processes, 2 threads each"),
    ],
)
def test_environments_are_stepped_as_configured(stepping, kind, text):
    with make_environments(make_config(stepping=stepping)) as envs:
        assert type(envs) is kind
        assert envs.num_envs == 8
        assert envs.metadata["autoreset_mode"].value == "SameStep"
    assert stepping.describe() == text


def test_progress_is_read_as_it_was_written(tmp_path):
    log = ProgressLog(tmp_path / "progress.csv")
    rows = [make_row(1, return_mean=math.nan), make_row(2), make_row(3, value_loss=1e-300)]
    for row in rows:
        log.append(row)

    assert repr(log.read()) == repr(rows)


def test_progress_ignores_a_row_that_was_cut_off_and_rewinds(tmp_path):
    path = tmp_path / "progress.csv"
    log = ProgressLog(path)
    for iteration in (1, 2, 3):
        log.append(make_row(iteration))
    path.write_text(path.read_text() + "4,400,4,0.")

    assert log.read() == [make_row(1), make_row(2), make_row(3)]
    log.rewind(2)
    log.append(make_row(3))
    assert log.read() == [make_row(1), make_row(2), make_row(3)]


@pytest.mark.parametrize(
    "damage", [b"\0\0,", b'"3,300,', b'"3"3,300,', b'3,300,"', b"3,\r300,", b"3", b"\n", b"\xff", b"9" * 200_000]
)
def test_progress_damaged_in_between_is_refused_and_after_the_checkpoint_dropped(damage, tmp_path):
    """In a file of more than a field may hold, which a stray quote would make of all that follows."""
    path = tmp_path / "progress.csv"
    log = ProgressLog(path)
    for iteration in (1, 2, 3):
        log.append(make_row(iteration))
    *before, third = path.read_bytes().splitlines(keepends=True)
    whole = b"".join([*before, third.replace(b"3,300,", damage), *[third] * 2000])
    path.write_bytes(whole)

    with pytest.raises(UserError, match=r"progress.csv is damaged in line 4 .*Move it away"):
        log.rewind(3)
    assert path.read_bytes() == whole
    log.rewind(2)
    assert log.read() == [make_row(1), make_row(2)]


def test_mean_is_fair_once_all_its_episodes_ended_after_every_environment_had_ended_one():
    """The first environment ends an episode in every step, the other in every third."""
    statistics, window = EpisodeStatistics(2, window=4), FairWindow()

    fair, mean = [], []
    for step in range(1, 9):
        statistics.step(np.ones(2), np.array([True, step % 3 == 0]))
        fair.append(window.is_fair(statistics, step))
        mean.append(statistics.mean_length)

    assert window.first_episodes == 4  # at step 3
    assert fair == [False] * 5 + [True] * 3
    assert mean[5] == 1.5
    assert FairWindow(4).is_fair(statistics, 8)


def test_stuck_workers_are_given_up(monkeypatch):
    given = {}
    monkeypatch.setattr(
        "superdex.lab.apps.train.environments.HybridVectorEnv", lambda *args, **kwargs: given.update(kwargs)
    )
    make_environments(make_config(stepping=Stepping(num_workers=2)))
    assert given["worker_timeout"] == 300


def test_new_directory_appears_only_when_it_is_whole(tmp_path):
    with pytest.raises(ZeroDivisionError), new_directory(tmp_path / "new") as unfinished:
        (unfinished / "file").write_text(str(1 / 0))
    assert list(tmp_path.iterdir()) == []

    with new_directory(tmp_path / "new") as unfinished:
        (unfinished / "file").write_text("whole")
        assert not (tmp_path / "new").exists()
    assert (tmp_path / "new" / "file").read_text() == "whole"


def test_replaced_file_stays_when_the_new_one_fails(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")

    def fail(path):
        path.write_text("half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        replace_file(file, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert file.read_text() == "old"


def test_runs_of_one_second_get_directories_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    paths = {RunDirectory.create(None, make_config()).path for _ in range(3)}

    assert len(paths) == 3
    assert all(path.parent.name == "runs" and path.name.startswith("CartPole-") for path in paths)


def test_unwritable_run_directory_is_named(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(UserError, match=r"--run_dir .*/run cannot be written: Permission denied\."):
        RunDirectory.create(tmp_path / "run", make_config())


def test_abandoned_run_leaves_what_is_not_its_own(tmp_path):
    (tmp_path / "mine").mkdir()
    for name, files in (("new", []), ("mine", []), ("used", ["notes.txt"])):
        run = RunDirectory.create(tmp_path / name, make_config())
        for file in files:
            (run.path / file).touch()
        (run.checkpoints / ".unfinished-x").mkdir()
        run.abandon()

    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["mine", "used", "used/notes.txt"]


def test_run_that_cannot_be_begun_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(RunDirectory, "write_versions", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        RunDirectory.create(tmp_path / "run", make_config())
    assert list(tmp_path.iterdir()) == []


def test_run_that_another_process_begins_meanwhile_is_left_alone(tmp_path, monkeypatch):
    theirs = RunDirectory.create(tmp_path / "run", make_config())
    monkeypatch.setattr(Path, "iterdir", lambda path: iter(()))  # as it was a moment before
    with pytest.raises(UserError, match=r"run: another run was begun in it just now\."):
        RunDirectory.create(tmp_path / "run", make_config(seed=7))
    assert theirs.read_config() == make_config()
    assert theirs.checkpoints.is_dir()


def test_learning_rate_follows_the_schedule():
    config = make_config(recipe=Recipe(learning_rate=0.2, total_steps=1000, schedule="constant"))
    assert config.learning_rate_at(500) == 0.2

    linear = replace(config, recipe=replace(config.recipe, schedule="linear"))
    assert [linear.learning_rate_at(steps) for steps in (0, 500, 1000, 1024)] == [0.2, 0.1, 0, 0]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_live_display_fits_the_terminal(width):
    interruption = Interruption(announce=False)
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    display = LiveDisplay(console, 0, 2_000_000, interruption)
    row = make_row(40, steps=1_280_000, return_mean=912.34, length_mean=913.3, steps_per_second=51_234.5)
    row = replace(row, wall_seconds=20.0, stepping_seconds=12.0, learning_seconds=7.0)

    display.update(row, 950.0)
    interruption.requested = True
    with console.capture() as capture:
        console.print(display)

    lines = capture.get().splitlines()
    assert len(lines) == 4
    assert all(len(line.rstrip()) <= width for line in lines)
    assert "64 %  1,280,000 of 2,000,000 steps  0:00:0" in lines[0]
    assert lines[1].split("  ") == ["return 912.3 (best 950.0)", "length 913.3"]
    assert lines[2] == "51,234 steps/s (stepping 60%, learning 35%)"
    assert lines[3].rstrip() == NOTICE


def test_curve_is_drawn_with_and_without_finished_episodes(tmp_path):
    for name, rows in (("some", [make_row(i) for i in (1, 2, 3)]), ("none", [make_row(1, return_mean=math.nan)])):
        draw_learning_curve(rows, None, "CartPole", tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("best", "marked"),
    [(30.0, [(4e-4, 30.0), (0.4, 30.0)]), (25.0, [(3e-4, 25.0), (0.3, 25.0)]), (7.0, []), (None, [])],
)
def test_curve_marks_the_best_policy_and_no_unfair_mean(best, marked, tmp_path, monkeypatch):
    marks = []
    monkeypatch.setattr("matplotlib.axes.Axes.annotate", lambda axes, text, place, **_: marks.append((text, place)))
    rows = [make_row(1 + i, return_mean=mean) for i, mean in enumerate((99.0, 25.0, 25.0, 30.0, 20.0))]
    info = PolicyInfo(task_id="CartPole", steps=0, iteration=0, return_mean=best, length_mean=best)

    draw_learning_curve(rows, info, "CartPole", tmp_path / "curve.png")

    assert [place for _, place in marks] == [pytest.approx(place) for place in marked]
    assert {text for text, _ in marks} <= {f"{best}".removesuffix(".0")}
