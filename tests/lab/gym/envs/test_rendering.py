"""Environments shown: frames and windows of their own present state, without a trace in it."""

from __future__ import annotations

import gc
import sys
import types
import warnings
import weakref
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.error import UnsupportedMode
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordVideo

import superdex.lab.gym  # noqa: F401 (registers the tasks)
from superdex.lab.gym.envs import MochiEnv, Sim, rendering
from superdex.lab.gym.envs.benchmarks import AntEnv, CartPoleEnv, HalfCheetahEnv, ant_env, cartpole_env, halfcheetah_env
from superdex.lab.gym.envs.gymnasium_v5 import AntV5Env, ReacherV5Env
from superdex.lab.gym.testing.models import model_differences
from tests.lab.gym.envs.tasks import PendulumEnv

FRAMES: dict[str, Any] = {"render_mode": "rgb_array", "render_size": (64, 48)}
BENCHMARKS = [AntEnv, CartPoleEnv, HalfCheetahEnv]


def started(env: MochiEnv, seed: int = 0, num_steps: int = 0) -> MochiEnv:
    env.reset(seed=seed)
    env.action_space.seed(seed)
    for _ in range(num_steps):
        env.step(env.action_space.sample())
    return env


def frame_of(env: MochiEnv) -> np.ndarray:
    frame = env.render()
    assert frame is not None
    return frame


class TestFrames:
    @pytest.mark.parametrize(
        ("env_class", "shape", "fps"),
        [(AntEnv, (480, 640, 3), 20), (CartPoleEnv, (480, 640, 3), 25), (ReacherV5Env, (480, 480, 3), 50)],
    )
    def test_defaults(self, env_class: type[MochiEnv], shape: tuple[int, ...], fps: float) -> None:
        env = started(env_class(render_mode="rgb_array"))
        frame = frame_of(env)
        assert (frame.shape, frame.dtype) == (shape, np.uint8)
        assert frame.std() > 10
        assert env.metadata == {"render_modes": ["human", "rgb_array"], "render_fps": fps}
        env.close()

    @pytest.mark.parametrize("env_class", BENCHMARKS)
    def test_rollout_is_the_same_to_the_bit_with_and_without(self, env_class: type[MochiEnv]) -> None:
        shown, plain = started(env_class(**FRAMES, randomize_physics=0.1)), started(env_class(randomize_physics=0.1))
        for _ in range(10):
            action = plain.action_space.sample()
            shown.render()
            results = [env.step(action) for env in (shown, plain)]
            assert [result[1:4] for result in results] == [results[1][1:4]] * 2
            assert np.array_equal(results[0][0], results[1][0])
        states = [env.batch.physics.state for env in (shown, plain)]
        assert np.array_equal(*states)
        for name in AntEnv.derived_fields if env_class is AntEnv else ():
            assert np.array_equal(*(env.batch.physics.field(name) for env in (shown, plain)))

    def test_siblings_show_each_its_own_state(self) -> None:
        first, second = started(AntEnv(**FRAMES), 0, 3), started(AntEnv(**FRAMES), 1, 3)
        assert first.scene is second.scene
        pictures = [frame_of(env) for env in (first, second, first)]
        assert np.array_equal(pictures[0], pictures[2])
        assert not np.array_equal(pictures[0], pictures[1])

    @pytest.mark.parametrize("randomize_physics", [0.0, 0.3])
    def test_follows_the_robot_wherever_it_goes(self, randomize_physics: float) -> None:
        env = started(HalfCheetahEnv(**FRAMES, reset_noise_scale=0.0, randomize_physics=randomize_physics))
        here = frame_of(env).astype(int)
        env.batch.physics.field("qpos")[0, 0] += 200.0  # a whole number of floor tiles
        assert np.abs(frame_of(env) - here).mean() < 2

    def test_shows_each_environments_own_geometry(self) -> None:
        class Resized(AntEnv):
            randomized_fields = ("geom_size",)

            def _randomize(self, sim: Sim) -> None:
                sim.parameter("geom_size")[:, sim.model.geom("torso").id] *= 0.5 + 1.5 * sim.random(1)

        envs = [started(Resized(**FRAMES, reset_noise_scale=0.0), seed) for seed in (0, 1)]
        first, second = map(frame_of, envs)
        assert np.abs(first.astype(int) - second).max() > 50
        assert np.array_equal(frame_of(envs[0]), first)

    def test_quality_and_camera_are_configured(self) -> None:
        fast, nice = (frame_of(started(AntEnv(**FRAMES, render_quality=quality))) for quality in ("fast", "nice"))
        assert not np.array_equal(fast, nice)
        usual, level = (frame_of(started(AntV5Env(**FRAMES, render_camera=camera))) for camera in (None, "track"))
        assert not np.array_equal(usual, level)

    def test_model_without_cameras_is_seen_as_a_whole(self) -> None:
        env = started(PendulumEnv(**FRAMES))
        assert env.scene.model.ncam == 0
        assert frame_of(env).std() > 1


class TestRefusals:
    def test_environment_without_a_mode_does_not_render(self) -> None:
        with pytest.raises(UnsupportedMode, match="give it render_mode='rgb_array' for frames, or 'human'"):
            started(PendulumEnv()).render()

    def test_closed_environment_does_not_render(self) -> None:
        env = started(PendulumEnv(**FRAMES))
        env.close()
        with pytest.raises(RuntimeError, match="is closed"):
            env.render()

    def test_environment_that_another_thread_closes_meanwhile(self) -> None:
        """Whichever line it is in: the frame is finished, and the next one refused."""

        class ClosedMeanwhile(PendulumEnv):
            """Lets go of its renderer, as `close` does, as soon as somebody has looked at it."""

            @property
            def _renderer(self) -> Any:  # type: ignore[override]
                return vars(self).pop("held", None)

            @_renderer.setter
            def _renderer(self, renderer: Any) -> None:
                vars(self)["held"] = renderer

        env = started(ClosedMeanwhile(**FRAMES))
        assert np.array_equal(frame_of(env), frame_of(started(PendulumEnv(**FRAMES))))
        frame_of(env)
        env.close()
        with pytest.raises(RuntimeError, match="is closed"):
            env.render()

    def test_unknown_camera_is_named(self) -> None:
        with pytest.raises(ValueError, match="no camera 'rear'; it has track"):
            started(AntEnv(**FRAMES, render_camera="rear")).render()

    @pytest.mark.parametrize(
        ("field", "value", "message"),
        [
            ("render_size", (0, 48), "at least 1 pixel"),
            ("render_quality", "best", r"one of \('fast', 'nice'\), got 'best'"),
        ],
    )
    def test_impossible_configuration_is_refused(self, field: str, value: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            AntEnv({field: value})


class TestSharing:
    def test_environments_of_a_scene_share_one_renderer_until_the_last_closes(self) -> None:
        envs = [started(CartPoleEnv(**FRAMES)) for _ in range(3)]
        for env in envs:
            env.render()
        renderers = {env._renderer for env in envs}
        assert len(renderers) == 1
        watched = weakref.ref(renderers.pop())
        for env in envs:
            gc.collect()
            assert watched() is not None
            env.close()
        gc.collect()
        assert watched() is None

    def test_dropped_environment_lets_go_of_it(self) -> None:
        env = started(CartPoleEnv(**FRAMES))
        env.render()
        watched = weakref.ref(env._renderer)  # type: ignore[arg-type]
        del env
        gc.collect()
        assert watched() is None


class FakeViewer:
    """What `Viewer` does, without a window."""

    opened: list[FakeViewer] = []  # noqa: RUF012

    def __init__(self, model: mujoco.MjModel, camera: Any) -> None:
        self.times: list[float] = []
        self.closed = False
        self.is_running = True
        self.opened.append(self)

    def show(self, state: np.ndarray, parameters: dict[str, np.ndarray]) -> None:
        self.times.append(float(state[0]))

    def close(self) -> None:
        self.closed = True


class TestHuman:
    def test_every_reset_and_step_is_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rendering, "Viewer", FakeViewer)
        monkeypatch.setattr(FakeViewer, "opened", [])
        env = started(CartPoleEnv(render_mode="human"), num_steps=2)
        env.reset()
        assert env.render() is None
        (viewer,) = FakeViewer.opened
        assert viewer.times == pytest.approx([0.0, 0.04, 0.08, 0.0, 0.0])
        env.close()
        assert viewer.closed

    @pytest.mark.parametrize("render_mode", [None, "rgb_array"])
    def test_window_can_be_had_in_any_render_mode(
        self, render_mode: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rendering, "Viewer", FakeViewer)
        monkeypatch.setattr(FakeViewer, "opened", [])
        env = started(CartPoleEnv(render_mode=render_mode), num_steps=2)
        assert env.show_in_window()
        (viewer,) = FakeViewer.opened
        viewer.is_running = False
        assert not env.show_in_window()
        assert FakeViewer.opened == [viewer]
        env.close()
        assert viewer.closed

    def test_no_display_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "linux")
        for name in ("DISPLAY", "WAYLAND_DISPLAY"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(RuntimeError, match="needs a display"):
            CartPoleEnv(render_mode="human").reset()


class TestGymnasium:
    @pytest.mark.parametrize("env_class", [CartPoleEnv, ReacherV5Env])
    def test_check_env_has_no_complaint_about_rendering(self, env_class: type[MochiEnv]) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check_env(env_class(**FRAMES))
        texts = [str(warning.message) for warning in caught]
        # without a spec it cannot make the environment in the other modes
        assert [text for text in texts if "render" in text and "alternative render modes" not in text] == []

    def test_video_is_recorded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        clips: list[Any] = []

        class Clip:
            def __init__(self, frames: list[np.ndarray], fps: float) -> None:
                self.frames, self.fps = frames, fps
                clips.append(self)

            def write_videofile(self, path: str, logger: Any) -> None:
                Path(path).write_text("")

        module = types.ModuleType("moviepy.video.io.ImageSequenceClip")
        module.ImageSequenceClip = Clip  # type: ignore[attr-defined]
        for name in ("moviepy", "moviepy.video", "moviepy.video.io"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        monkeypatch.setitem(sys.modules, "moviepy.video.io.ImageSequenceClip", module)
        env = gymnasium.make("superdex_gym/CartPole-v0", max_episode_steps=5, **FRAMES)
        with RecordVideo(env, str(tmp_path / "videos"), episode_trigger=lambda episode: True) as recorded:
            recorded.reset(seed=0)
            ended = False
            while not ended:
                *_, terminated, truncated, _ = recorded.step(np.zeros(1, np.float32))
                ended = terminated or truncated
        (clip,) = clips
        assert clip.fps == 25
        assert [frame.shape for frame in clip.frames] == [(48, 64, 3)] * 6

    def test_frames_are_collected(self) -> None:
        size = FRAMES["render_size"]
        env = gymnasium.make("superdex_gym/CartPole-v0", render_mode="rgb_array_list", render_size=size)
        env.reset(seed=0)
        env.step(np.zeros(1, np.float32))
        assert len(env.render()) == 2  # type: ignore[arg-type]
        env.close()


VISUAL = ("cam_", "light_", "mat_", "tex_", "geom_matid", "geom_rgba", "vis.", "names", "name_", "ncam", "nlight")


def without_visuals(path: Path) -> mujoco.MjModel:
    root = ElementTree.parse(path).getroot()
    for parent in [*root.iter()]:
        parent.attrib.pop("material", None)
        for child in [*parent]:
            if child.tag in ("asset", "visual", "camera", "light"):
                parent.remove(child)
    return mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding="unicode"))


@pytest.mark.parametrize("module", [ant_env, cartpole_env, halfcheetah_env])
def test_visuals_of_a_model_are_only_visual(module: types.ModuleType) -> None:
    full, bare = mujoco.MjModel.from_xml_path(str(module.MODEL_PATH)), without_visuals(module.MODEL_PATH)
    assert full.ncam > bare.ncam == 0
    different = model_differences(full, bare)
    assert "mat_rgba" in different
    assert [name for name in different if not name.startswith(VISUAL)] == []
