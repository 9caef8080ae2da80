"""The `superdex` command: help, `list`, and what it says to wrong use."""

import subprocess
import sys

import pytest

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.main import main
from superdex.lab.apps.tasks import all_tasks, find_task
from superdex.lab.gym import TASKS
from superdex.lab.gym.envs.benchmarks.ant_env import AntCfg, AntEnv
from tests.lab.gym.envs.tasks import PendulumEnv


@pytest.mark.parametrize("name", ["Ant", "Ant-v0", "superdex_gym/Ant-v0"])
def test_task_is_found_by_each_of_its_names(name):
    task = find_task(name)

    assert task.task_id == "superdex_gym/Ant-v0"
    assert task.env_class is AntEnv


def test_variant_has_its_fields():
    env = find_task("AntRotationVector").make(steps_per_episode=7)

    assert env.cfg == AntCfg(use_rotation_vector=True, steps_per_episode=7)
    env.close()


def test_own_class_is_a_task():
    task = find_task("tests.lab.gym.envs.tasks:PendulumEnv")

    assert task.name == "Pendulum"
    assert task.env_class is PendulumEnv
    env = task.make(steps_per_episode=7)
    assert type(env) is PendulumEnv
    assert env.cfg.steps_per_episode == 7
    env.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tests.lab.gym.envs.tasks:PendulumEnvv", r"has no 'PendulumEnvv'\. Did you mean 'PendulumEnv'\?"),
        ("tests.lab.gym.envs.tasks:np", "is not a class that derives from MochiEnv"),
        ("tests.no_such_module:PendulumEnv", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_own_class_that_is_none_is_told_at_once(name, message):
    with pytest.raises(UserError, match=message):
        find_task(name)


def test_unknown_task_names_the_nearest_or_all():
    with pytest.raises(UserError, match=r"There is no task 'cartpol'\. Did you mean 'CartPole'\?"):
        find_task("cartpol")
    with pytest.raises(UserError, match=r"There is no task 'Walker'\. There are: Ant, .*HalfCheetah"):
        find_task("Walker")


def test_list_shows_every_task_with_its_sizes_and_rates(capsys):
    assert main(["list"]) == 0

    lines = (line.split() for line in capsys.readouterr().out.splitlines() if "superdex_gym/" in line)
    rows = {task_id: columns for task_id, *columns in lines}
    assert set(rows) == {f"superdex_gym/{name}" for name in TASKS}
    assert rows["superdex_gym/CartPole-v0"] == ["4", "1", "25", "/", "50"]
    assert rows["superdex_gym/AntRotationVector-v0"] == ["80", "8", "20", "/", "100", "use_rotation_vector=True"]
    assert len(all_tasks()) == len(TASKS)


@pytest.mark.parametrize("args", [["--help"], ["bench", "--help"], ["list", "--help"]])
def test_help(args, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(args)

    assert exit_info.value.code == 0
    printed = capsys.readouterr().out
    assert printed.startswith(" ".join(["usage: superdex", *args[:-1]]))
    if args[0] == "bench":
        for option in ("env", "sections", "num_workers", "num_envs_per_worker", "threads", "num_steps", "json", "plot"):
            assert f"--{option} " in printed
        assert "None" not in printed


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--env", "CartPolle"],
            "There is no task 'CartPolle'. Did you mean 'CartPole'? `superdex list` shows all.",
        ),
        (["--env"], "--env must be at least one task, got none."),
        (["--sections"], "--sections must be at least one section, got none."),
        (["--num_workers", "0"], "--num_workers must be at least 1, got 0."),
        (["--num-workers", "2", "-1"], "--num_workers must be at least 1, got -1."),
        (["--num-envs-per-worker", "0"], "--num_envs_per_worker must be at least 1, got 0."),
        (["--threads", "0"], "--threads must be at least 1, got 0."),
        (["--rounds", "0"], "--rounds must be at least 1, got 0."),
        (["--num_steps", "0"], "--num_steps must be at least 1, got 0."),
        (["--min-seconds", "nan"], "--min_seconds must be positive, got nan."),
        (["--seed", "-1"], "--seed must not be negative, got -1."),
        (["--json", "missing/x.json"], "--json missing/x.json: there is no directory missing."),
        (
            ["--sections", "sharing", "--plot", "x.png"],
            '--plot draws the section "sweep", which --sections leaves out.',
        ),
        (["--plot", "x.jpgg"], "--plot x.jpgg: the name must end in .png, .svg or .pdf."),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(args, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    assert main(["bench", *args]) == 2

    captured = capsys.readouterr()
    assert captured.err == f"superdex: error: {message}\n"
    assert captured.out == ""


def test_plot_without_matplotlib_names_the_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    assert main(["bench", "--plot", "x.png"]) == 2
    assert "pip install 'superdex-gym[plot]'" in capsys.readouterr().err


def test_command_does_not_import_matplotlib():
    program = "import sys, superdex.lab.apps.main; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
