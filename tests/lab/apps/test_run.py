"""`superdex run`: actions without a policy, what is printed, and what is filmed or shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box

from superdex.lab.apps import run as run_module
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.run import SWEEP_SECONDS, Episode, Run, episode_table, make_actions, neutral_action, sweep
from superdex.lab.apps.tables import make_console
from tests.lab.apps.films import read_film

SPACE = Box(np.array([-1.0, 2.0, -np.inf]), np.array([3.0, 4.0, np.inf]), dtype=np.float64)


def words(text: str) -> str:
    return " ".join(text.split())


class TestActions:
    def test_neutral_is_as_near_to_zero_as_can_be(self) -> None:
        assert neutral_action(SPACE).tolist() == [0.0, 2.0, 0.0]

    def test_sweep_takes_one_entry_after_another_through_its_range(self) -> None:
        times = np.linspace(0, 3 * SWEEP_SECONDS, 240, endpoint=False)
        actions = np.array([sweep(SPACE, time) for time in times])
        for entry, (low, high) in enumerate([(-1.0, 3.0), (2.0, 4.0), (-1.0, 1.0)]):
            own = slice(80 * entry, 80 * (entry + 1))
            assert (actions[own, entry].min(), actions[own, entry].max()) == pytest.approx((low, high), abs=0.01)
            others = np.delete(np.arange(240), np.arange(240)[own])
            assert (actions[others, entry] == neutral_action(SPACE)[entry]).all()
        assert sweep(SPACE, 3 * SWEEP_SECONDS + 0.2) == pytest.approx(sweep(SPACE, 0.2))

    def test_random_is_drawn_anew_from_the_seed(self) -> None:
        first, second, other = (make_actions("random", SPACE, 4, 0.1, seed) for seed in (5, 5, 6))
        drawn = first(0)
        assert drawn.shape == (4, 3)
        assert all(row in SPACE for row in drawn)
        assert np.array_equal(drawn, second(0))
        assert not np.array_equal(drawn, other(0))
        assert not np.array_equal(drawn, first(1))

    @pytest.mark.parametrize("kind", ["zero", "sweep"])
    def test_others_are_the_same_for_all(self, kind: Any) -> None:
        actions = make_actions(kind, SPACE, 4, 0.1, 0)(3)
        assert actions.shape == (4, 3)
        assert (actions == actions[0]).all()


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

    def test_window_shows_the_first_environment_until_it_is_closed(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        times: list[float] = []

        class Window:
            def __init__(self, model: Any, camera: Any) -> None: ...

            def __enter__(self) -> Window:
                return self

            def __exit__(self, *error: object) -> None:
                times.append(-1.0)

            @property
            def is_running(self) -> bool:
                return len(times) < 5

            def show(self, state: np.ndarray) -> None:
                times.append(float(state[0]))

        monkeypatch.setattr(run_module, "Viewer", Window)
        assert Run(task="CartPole", actions="zero", viewer=True).run() == 0
        assert times == pytest.approx([0.0, 0.04, 0.08, 0.12, 0.16, -1.0])
        assert "To see it" not in capsys.readouterr().out

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
