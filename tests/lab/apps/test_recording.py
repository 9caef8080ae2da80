"""Films of rollouts: which frames are taken, what a terminal shows meanwhile, and what is left of one that is ended."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from superdex.lab.apps import recording
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.recording import film, tile_size
from superdex.lab.apps.video import VideoWriter
from superdex.physics.rendering import RenderingError
from tests.lab.apps.films import read_film

FRAME = np.zeros((16, 16, 3), np.uint8)

PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where tests run in the background
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from superdex.lab.apps.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def filming(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is at a long film, `film.mp4`."""
    command = [sys.executable, "-c", PROGRAM, "run", "CartPole", "--seconds", "100000", "--video_quality", "fast"]
    with subprocess.Popen(
        [*command, "--video", str(tmp_path / "film.mp4")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            deadline = time.monotonic() + 120
            while not any(path.stat().st_size for path in tmp_path.glob(".unfinished-*")):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGTERM, 143, ""),
        (signal.SIGHUP, 129, ""),
        (signal.SIGINT, 130, "superdex: interrupted\n"),
    ],
)
def test_ended_process_leaves_nothing_and_says_little(
    filming: subprocess.Popen[str], tmp_path: Path, number: signal.Signals, code: int, message: str
) -> None:
    filming.send_signal(number)
    assert filming.communicate(timeout=120) == ("", message)
    assert filming.returncode == code
    assert os.listdir(tmp_path) == []


def test_leftover_of_a_killed_process_goes_with_the_next_video(filming: subprocess.Popen[str], tmp_path: Path) -> None:
    filming.kill()
    filming.communicate(timeout=120)
    assert [name.startswith(".unfinished-film-") for name in os.listdir(tmp_path)] == [True]
    with VideoWriter(tmp_path / "film.mp4", fps=10) as video:
        video.write(FRAME)
    assert os.listdir(tmp_path) == ["film.mp4"]


@pytest.mark.parametrize(
    ("dt", "num_steps", "steps", "fps"),
    [(0.04, 3, [0, 1, 2], 25), (0.008, 7, [0, 3, 6], 125 / 3), (0.008, 6, [0, 3], 125 / 3), (0.02, 2, [0, 1], 50)],
)
def test_frames_are_taken_as_fast_as_players_show_them(
    tmp_path: Path, dt: float, num_steps: int, steps: list[int], fps: float
) -> None:
    taken = []
    with film(tmp_path / "v.mp4", dt=dt, num_steps=num_steps) as take:
        for step in range(num_steps):
            take(step, lambda: taken.append(step) or FRAME)  # noqa: B023 (called at once)
    assert taken == steps
    shown = read_film(tmp_path / "v.mp4")
    assert len(shown.frames) == len(steps)
    assert shown.fps == pytest.approx(fps, abs=0.01)


def make_film(path: Path, quiet: bool = False) -> None:
    with film(path, dt=0.04, num_steps=7, quiet=quiet) as take:
        for step in range(7):
            take(step, lambda: FRAME)


def test_terminal_shows_how_many_frames_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, force_interactive=True, width=100)
    monkeypatch.setattr(recording, "Console", lambda stderr: console)
    make_film(tmp_path / "[v].mp4")
    assert "filming [v].mp4" in screen.getvalue()
    assert "0/7" in screen.getvalue()
    assert "7/7" in screen.getvalue()
    screen.truncate(0)
    make_film(tmp_path / "v.mp4", quiet=True)
    assert screen.getvalue() == ""


def test_nothing_is_shown_elsewhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_film(tmp_path / "v.mp4")
    assert capfd.readouterr() == ("", "")


def test_machine_that_cannot_draw_is_said(tmp_path: Path) -> None:
    def refuse() -> np.ndarray:
        raise RenderingError("No OpenGL here.")

    with (
        pytest.raises(UserError, match=r"No video can be drawn on this machine: No OpenGL here\."),
        film(tmp_path / "v.mp4", dt=0.04, num_steps=1) as take,
    ):
        take(0, refuse)
    assert os.listdir(tmp_path) == []


def test_errors_of_the_task_are_not_taken_for_the_machine(tmp_path: Path) -> None:
    def fail() -> np.ndarray:
        raise RuntimeError("the task's own")

    with (
        pytest.raises(RuntimeError, match="the task's own"),
        film(tmp_path / "v.mp4", dt=0.04, num_steps=1) as take,
    ):
        take(0, fail)
    assert os.listdir(tmp_path) == []


def test_grids_fit_on_a_screen() -> None:
    assert [tile_size(count) for count in (1, 4, 9, 16, 225)] == [
        (640, 480), (480, 360), (400, 300), (300, 225), (80, 60),
    ]  # fmt: skip
    assert tile_size(10_000) == (80, 60)
