"""The `superdex` command: help, `list`, and what it says to wrong use and Ctrl-C."""

import subprocess
import sys

import pytest

from superdex.lab.apps.main import main
from superdex.lab.apps.tasks import all_tasks
from superdex.lab.gym import TASKS


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
        for option in (
            "env",
            "sections",
            "num_workers",
            "num_envs_per_worker",
            "num_threads",
            "num_steps",
            "json",
            "plot",
        ):
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
        (["--num_threads", "0"], "--num_threads must be at least 1, got 0."),
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


def test_ctrl_c_while_the_command_is_imported_is_answered():
    program = """
import sys
from superdex.lab.apps.main import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
sys.exit(main(["list"]))
"""
    result = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "superdex: interrupted\n")


def test_command_and_training_from_python_are_light_to_import():
    heavy = "{'matplotlib', 'ray', 'stable_baselines3', 'torch'}"
    program = (
        f"import sys, superdex.lab.apps.commands, superdex.lab.apps.train; sys.exit(bool({heavy} & {{*sys.modules}}))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
