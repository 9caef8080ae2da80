"""`superdex run`: actions without a policy, what is printed, and what is filmed or shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from superdex.lab.apps import run as run_module
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.run import Episode, Run, episode_table
from superdex.lab.apps.tables import make_console
from superdex.lab.gym.envs import rendering
from tests.lab.apps.films import read_film

OWN = "tests.lab.apps.own_tasks"


class Window:
    """What `Viewer` does, without a window; it is closed when it has shown five states."""

    def __init__(self, model: mujoco.MjModel, camera: Any) -> None:
        self.camera, self.closed = camera, False
        self.times: list[float] = []
        self.parameters: list[dict[str, np.ndarray]] = []

    @property
    def is_running(self) -> bool:
        return len(self.times) < 5

    def show(self, state: np.ndarray, parameters: dict[str, np.ndarray]) -> None:
        self.times.append(float(state[0]))
        self.parameters.append(parameters)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[Window]:
    """The windows that are opened."""
    opened: list[Window] = []

    def open_window(model: mujoco.MjModel, camera: Any) -> Window:
        opened.append(Window(model, camera))
        return opened[-1]

    monkeypatch.setattr(rendering, "Viewer", open_window)
    return opened


def words(text: str) -> str:
    return " ".join(text.split())


class TestRun:
    def test_prints_episodes(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert Run(task="CartPole", num_envs=2, num_steps=40).run() == 0
        printed = words(capsys.readouterr().out)
        assert printed.startswith("CartPole, random actions environment return length ended by")
        assert "Pole angle exceeded threshold" in printed
        assert "still going" in printed
        assert "To see it, add --video FILE.mp4, or --viewer" in printed

    def test_every_step_is_in_one_episode(self) -> None:
        log = run_module._Log(2)
        infos = {
            "final_info": {"terminated_reason": np.array([None, "fell"]), "truncated_reason": np.array(["late", None])}
        }
        log.add(np.array([1.0, 2.0]), np.zeros(2, bool), np.zeros(2, bool), {})
        log.add(np.array([1.0, 2.0]), np.array([False, True]), np.array([False, False]), infos)
        log.add(np.array([1.0, 2.0]), np.array([False, False]), np.array([True, False]), infos)
        assert log.episodes() == [
            Episode(1, 4.0, 2, "fell"), Episode(0, 3.0, 3, "late"), Episode(1, 2.0, 1, None)
        ]  # fmt: skip

    def test_long_tables_are_cut(self, capsys: pytest.CaptureFixture[str]) -> None:
        make_console().print(episode_table("many", [Episode(i, 1.0, 1, "fell") for i in range(50)]))
        printed = capsys.readouterr().out
        assert printed.count("fell") == 12
        assert "and 38 more" in printed

    def test_duration_is_steps_or_seconds(self) -> None:
        assert len(Run(task="CartPole", seconds=2.0)._steps(0.04)) == 50
        assert len(Run(task="CartPole", num_steps=7)._steps(0.04)) == 7
        assert len(Run(task="CartPole")._steps(0.04)) == 250

    def test_video_shows_all_environments_at_its_own_pace(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "hopper.mp4"
        sweeping = Run(
            task="GymnasiumHopper", actions="sweep", num_envs=2, num_steps=7, video=path, video_quality="fast"
        )
        assert sweeping.run() == 0
        assert f"video: {path}" in capsys.readouterr().out
        film = read_film(path)
        assert film.frames.shape == (3, 394, 964, 3)  # of every third step; two tiles of 480 x 360 below a caption
        assert film.fps == pytest.approx(125 / 3, abs=0.01)

    @pytest.mark.parametrize("task", ["CartPole", f"{OWN}:AloneEnv"])
    @pytest.mark.parametrize("cfg", [(), ("use_shared_scenes=False",), ("randomize_physics=0.5",)])
    def test_window_shows_the_first_environment_until_it_is_closed(
        self, task: str, cfg: tuple[str, ...], windows: list[Window], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert Run(task=task, cfg=cfg, actions="zero", num_envs=2, viewer=True).run() == 0
        (window,) = windows
        assert window.times == pytest.approx([0.0, 0.04, 0.08, 0.12, 0.16])
        assert window.closed
        assert window.camera is None
        masses = {float(parameters["body_mass"][-1]) for parameters in window.parameters if parameters}
        assert len(masses) == ("randomize_physics=0.5" in cfg), "the first environment's own"
        assert "To see it" not in capsys.readouterr().out

    def test_window_and_video_go_together(
        self, windows: list[Window], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "v.mp4"
        cfg = ("render_camera=track",)
        assert Run(task="CartPole", cfg=cfg, num_steps=3, viewer=True, video=path, video_quality="fast").run() == 0
        (window,) = windows
        assert window.times == pytest.approx([0.0, 0.04, 0.08])
        assert window.camera == "track"
        assert len(read_film(path).frames) == 3
        assert capsys.readouterr().out.endswith(f"video: {path}\n")

    @pytest.mark.parametrize("how", ["viewer", "video"])
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"cfg": ("render_camera=nope",)}, r"^render_camera: The model has no camera 'nope'; it has track\."),
            ({"task": f"{OWN}:BlindEnv"}, r"^BlindEnv\.view: The model has no camera 'nope'; it has track\."),
        ],
    )
    def test_camera_that_is_none_is_told_before_anything_runs(
        self, how: str, options: dict[str, Any], message: str, windows: list[Window], tmp_path: Path
    ) -> None:
        shown = {"viewer": True} if how == "viewer" else {"video": tmp_path / "v.mp4"}
        with pytest.raises(UserError, match=message):
            Run(**{"task": "CartPole", **options, **shown}).run()
        assert windows == []
        assert list(tmp_path.iterdir()) == []

    def test_no_display_for_a_window_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.platform", "linux")
        for name in ("DISPLAY", "WAYLAND_DISPLAY"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(UserError, match="--viewer: A window needs a display"):
            Run(task="CartPole", viewer=True).run()

    def test_machine_that_cannot_draw_is_said(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("MUJOCO_GL", "off")
        monkeypatch.setattr("superdex.physics.rendering.context._backend", None)
        with pytest.raises(UserError, match="No video can be drawn on this machine: Rendering is off"):
            Run(task="CartPole", video=tmp_path / "v.mp4").run()
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"task": "CartPolle"}, "Did you mean 'CartPole'"),
            ({"num_envs": 0}, "--num_envs must be at least 1, got 0"),
            ({"num_steps": 0}, "--num_steps must be at least 1, got 0"),
            ({"seed": -1}, "--seed must be at least 0, got -1"),
            ({"seconds": 0.0}, "--seconds must be positive and at most 1,000,000,000, got 0.0"),
            ({"seconds": 1e308}, "--seconds must be positive and at most 1,000,000,000, got 1e"),
            ({"seconds": 1.0, "num_steps": 5}, "give one of them"),
            ({"video": Path("film.gif")}, "the name must end in .mp4"),
            ({"video": Path("/nowhere/film.mp4")}, "there is no directory /nowhere"),
        ],
    )
    def test_wrong_use_is_refused_before_anything_runs(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(UserError, match=message):
            Run(**{"task": "CartPole", **options}).run()
