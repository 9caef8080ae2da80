"""What `superdex bench` does with its options and files, and what is kept when a measurement fails; none is made."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from superdex.lab.apps.bench import command
from superdex.lab.apps.bench.fresh import MeasurementError
from superdex.lab.apps.bench.laps import Lap
from superdex.lab.apps.bench.startup import Startup
from superdex.lab.apps.main import main

MODULES = {
    "sweep": "sweep",
    "gymnasium": "gymnasium_ratio",
    "sharing": "sharing",
    "scaling": "scaling",
    "suite": "suite",
}
LAPS = [Lap(10, 1.0), Lap(10, 1.0)]
STARTUP = Startup(1.0, None)
SPLIT = STARTUP, {"environments": LAPS, "raw mujoco.batch": LAPS}, 2
SUITE = ["--suite", "gymnasium-v5", "--env", "Ant", "Hopper", "--num_envs", "16", "100", "--num_threads", "1", "2"]
PNG = b"\x89PNG"


class Measurements:
    """Stands for `in_fresh_process`: so many measurements come out, and then one does not."""

    def __init__(self, number: int, error: BaseException | None = None) -> None:
        self.left, self.error = number, error

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        if not self.left:
            assert self.error is not None
            raise self.error
        self.left -= 1
        if function.__name__ == "race":  # of the suite, between those named in the second argument
            return dict.fromkeys(args[1], LAPS)
        known = {"measure_split": SPLIT, "measure_startup": STARTUP, "envpool_version": "1.0"}
        return known.get(function.__name__, {"ours": LAPS, "theirs": LAPS})


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets how many measurements of a section come out, and the exception after that."""

    def set_measurements(section: str, number: int, error: BaseException | None = None) -> None:
        name = f"superdex.lab.apps.bench.{MODULES[section]}.in_fresh_process"
        monkeypatch.setattr(name, Measurements(number, error))

    return set_measurements


def outputs(directory: Path, *, plot: bool = True) -> list[str]:
    return ["--json", str(directory / "b.json"), *(["--plot", str(directory / "b.png")] if plot else [])]


class TestFailure:
    @pytest.mark.parametrize(
        ("section", "number", "num_results", "interrupted"),
        [
            ("sweep", 1, 1, False),
            ("sweep", 3, 3, False),
            ("sweep", 5, 5, True),
            ("suite", 2, 1, True),
            ("suite", 4, 3, False),
            ("suite", 6, 5, False),
            ("gymnasium", 2, 2, False),
            ("gymnasium", 3, 3, True),
            ("sharing", 2, 1, True),
            ("sharing", 5, 2, False),
        ],
    )
    def test_what_was_measured_before_is_kept(
        self,
        section: str,
        number: int,
        num_results: int,
        interrupted: bool,
        measured: Callable[..., None],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        error = KeyboardInterrupt() if interrupted else MeasurementError("race(Ant) failed with exit code 1.")
        measured(section, number, error)
        plot = section in ("sweep", "suite")
        what = SUITE if section == "suite" else ["--sections", section, "--env", "CartPole", "Ant"]

        code = main(["bench", *what, "--quick", *outputs(tmp_path, plot=plot)])

        reason = "interrupted" if interrupted else str(error)
        captured = capsys.readouterr()
        assert code == (130 if interrupted else 1)
        assert captured.err == f"superdex: {reason}\n"
        document = json.loads((tmp_path / "b.json").read_text())
        assert document["failure"] == reason
        assert list(document["sections"]) == [section]
        results = document["sections"][section]
        assert len(results["results"] if section == "suite" else results) == num_results
        assert sum(line.split()[:1] in (["CartPole"], ["Ant-v5"], ["Hopper-v5"], ["Ant"])
                   for line in captured.out.splitlines()) == num_results  # fmt: skip
        assert sorted(path.name for path in tmp_path.iterdir()) == ["b.json", "b.png"][: 1 + plot]

    def test_sections_before_it_are_kept(
        self, measured: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        measured("gymnasium", 2)
        measured("scaling", 2, MeasurementError("no more."))

        args = ["--sections", "gymnasium", "scaling", "sharing", "--env", "CartPole", "--quick"]
        assert main(["bench", *args, *outputs(tmp_path, plot=False)]) == 1

        assert list(json.loads((tmp_path / "b.json").read_text())["sections"]) == ["gymnasium"]
        assert "Against Gymnasium's vectorizers" in capsys.readouterr().out

    @pytest.mark.parametrize(("section", "number"), [("sweep", 0), ("suite", 1)])
    def test_without_a_result_nothing_is_written(
        self, section: str, number: int, measured: Callable[..., None], tmp_path: Path
    ) -> None:
        measured(section, number, MeasurementError("not one."))
        for name in ("b.json", "b.png"):
            (tmp_path / name).write_text("of another day")

        what = SUITE if section == "suite" else ["--sections", section, "--env", "CartPole"]
        assert main(["bench", *what, "--quick", *outputs(tmp_path)]) == 1

        assert {path.read_text() for path in tmp_path.iterdir()} == {"of another day"}


class TestFiles:
    def test_those_that_are_there_are_replaced_and_not_written_to(
        self, measured: Callable[..., None], tmp_path: Path
    ) -> None:
        measured("sweep", 99)
        for name in ("b.json", "b.png"):
            (tmp_path / name).write_text("of another day")
            (tmp_path / name).chmod(0o444)
            (tmp_path / f"same {name}").hardlink_to(tmp_path / name)  # tells also if one may write to any file

        args = ["--sections", "sweep", "--env", "CartPole", "--quick", *outputs(tmp_path)]
        assert main(["bench", *args]) == 0

        assert "failure" not in json.loads((tmp_path / "b.json").read_text())
        assert (tmp_path / "b.png").read_bytes().startswith(PNG)
        assert {(tmp_path / f"same {name}").read_text() for name in ("b.json", "b.png")} == {"of another day"}

    @pytest.mark.parametrize("option", ["json", "plot"])
    def test_one_that_cannot_be_written_in_the_end_is_said(
        self,
        option: str,
        measured: Callable[..., None],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def refuse(path: Path, write: object) -> None:
            raise OSError(28, "No space left on device")

        measured("sweep", 99)
        monkeypatch.setattr(command, "replace_file", refuse)
        file = tmp_path / ("b.json" if option == "json" else "b.png")

        args = ["--sections", "sweep", "--env", "CartPole", "--quick", f"--{option}", str(file)]
        assert main(["bench", *args]) == 2

        captured = capsys.readouterr()
        assert captured.err == f"superdex: error: --{option} {file} cannot be written: No space left on device.\n"
        assert "Sweep: " in captured.out


USERS = {
    "num_workers": ["sweep", "gymnasium"],
    "num_envs_per_worker": ["sweep", "gymnasium"],
    "num_threads": ["sweep", "scaling"],
    "num_steps": ["sweep", "gymnasium", "scaling"],
    "min_seconds": ["sweep", "gymnasium", "scaling"],
    "rounds": ["sweep", "gymnasium", "scaling"],
    "seed": ["sweep", "gymnasium", "sharing", "scaling"],
}


class TestOptions:
    @pytest.fixture
    def received(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """What the sections were told."""
        told: dict[str, Any] = {}

        def measure(settings: Any, announce: object) -> list[object]:
            told.update(asdict(settings) | asdict(settings.plan))
            return []

        for section in command._SECTIONS:
            monkeypatch.setitem(command._SECTIONS, section, (measure, list))
        return told

    @pytest.mark.parametrize("section", ["sweep", "gymnasium", "sharing", "scaling"])
    @pytest.mark.parametrize("option", USERS)
    def test_each_reaches_a_section_that_takes_it_and_is_refused_without_one(
        self, option: str, section: str, received: dict[str, Any], capsys: pytest.CaptureFixture[str]
    ) -> None:
        code = main(["bench", "--sections", section, "--env", "CartPole", f"--{option}", "7"])

        if section in USERS[option]:
            assert code == 0
            assert received[option] in (7, (7,))
        else:
            assert code == 2
            rule = f"is for the sections {' and '.join(USERS[option])}, which --sections leaves out"
            assert f"--{option} {rule}, got " in capsys.readouterr().err
            assert received == {}
            assert main(["bench", "--sections", section, *USERS[option], "--env", "CartPole", f"--{option}", "7"]) == 0

    @pytest.mark.parametrize("option", [option for option in USERS if option != "min_seconds"])
    def test_each_is_honoured_with_quick(self, option: str, received: dict[str, Any]) -> None:
        assert main(["bench", "--quick", f"--{option}", "50"]) == 0
        assert received[option] in (50, (50,))

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (
                ["--quick", "--min_seconds", "1"],
                "--min_seconds does not go with --num_steps or --quick, which say how many steps a lap has, got 1.0.",
            ),
            (
                ["--suite", "gymnasium-v5", "--num_steps", "9", "--min_seconds", "1"],
                "--min_seconds does not go with --num_steps or --quick, which say how many steps a lap has, got 1.0.",
            ),
            (
                ["--sections", "scaling", "--env", "Ant", "CartPole"],
                '--env must be one task for the section "scaling" alone, got Ant CartPole.',
            ),
        ],
    )
    def test_those_that_do_not_go_together_are_refused(
        self, args: list[str], message: str, received: dict[str, Any], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["bench", *args]) == 2
        assert capsys.readouterr().err == f"superdex: error: {message}\n"
        assert received == {}
