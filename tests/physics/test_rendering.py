"""Frames: what is in them, what they depend on, and what holds and frees what draws them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import types
import weakref
from collections.abc import Iterator

import mujoco
import numpy as np
import pytest

from superdex.physics import Scene
from superdex.physics.rendering import Renderer, View, Viewer, backend_name, shared_renderer, viewer
from superdex.physics.rendering import renderer as rendering_module
from superdex.physics.rendering.renderer import Simulated

SIZE = (64, 48)
RED, BLUE = 0, 2

SCENERY = """
<mujoco model="scenery">
  <statistic extent="3" center="0 0 1"/>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0 0 0" rgb2="0.1 0.1 0.1" width="8" height="48"/>
    <material name="floor" reflectance="0.3"/>
  </asset>
  <worldbody>
    <light name="sun" pos="1 -1 4" dir="-0.3 0.3 -1"/>
    <camera name="front" pos="0 -6 1" xyaxes="1 0 0 0 0 1"/>
    <geom name="floor" type="plane" size="0 0 1" rgba="0.2 0.3 0.2 1" material="floor"/>
    <geom name="high" size="0.4" pos="0 0 2" rgba="1 0 0 1" contype="0" conaffinity="0"/>
    <body name="ball" pos="0 0 0.5">
      <freejoint name="ball"/>
      <geom name="ball" size="0.4" rgba="0 0 1 1"/>
    </body>
  </worldbody>
</mujoco>"""


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene("scenery", mujoco.MjModel.from_xml_string(SCENERY))


@pytest.fixture(scope="module")
def renderer(scene: Scene) -> Iterator[Renderer]:
    with Renderer(scene.simulated_model, SIZE) as renderer:
        yield renderer


def state_at(scene: Scene, x: float) -> np.ndarray:
    """The initial state with the ball moved along x."""
    state = scene.initial_state.copy()
    state[1] += x
    return state


def pixels(frame: np.ndarray, colour: int) -> np.ndarray:
    """(height, width) where the frame has that colour."""
    others = [c for c in range(3) if c != colour]
    return frame[..., colour] > 40 + frame[..., others].max(axis=-1).astype(int)


def where(frame: np.ndarray, colour: int) -> tuple[float, float]:
    """Row and column of the middle of what has that colour, as shares of the frame."""
    rows, columns = np.nonzero(pixels(frame, colour))
    assert rows.size, "nothing has that colour"
    return rows.mean() / frame.shape[0], columns.mean() / frame.shape[1]


class TestFrames:
    def test_is_an_array_of_its_own_with_the_top_row_first(self, scene: Scene, renderer: Renderer) -> None:
        frame = renderer.render(scene.initial_state, camera="front")
        assert frame.shape == (48, 64, 3)
        assert frame.dtype == np.uint8
        assert frame.flags.c_contiguous
        assert where(frame, RED)[0] < 0.4 < 0.5 < where(frame, BLUE)[0]
        kept = frame.copy()
        renderer.render(state_at(scene, 1.0))
        assert np.array_equal(frame, kept)

    def test_shows_the_state(self, scene: Scene, renderer: Renderer) -> None:
        left, right = (renderer.render(state_at(scene, x), camera="front") for x in (-1.0, 1.0))
        assert where(left, BLUE)[1] < 0.4 < 0.6 < where(right, BLUE)[1]
        assert where(left, RED) == pytest.approx(where(right, RED), abs=0.02)

    @pytest.mark.parametrize("camera", [None, "front", View(distance=5, follows="ball")])
    def test_depends_on_nothing_drawn_before(self, scene: Scene, camera: View | str | None) -> None:
        with Renderer(scene.simulated_model, SIZE) as fresh:
            first = fresh.render(scene.initial_state, camera=camera)
            elsewhere = fresh.render(state_at(scene, 20.0), camera="front")
            again = fresh.render(scene.initial_state, camera=camera)
        assert np.array_equal(first, again)
        assert not np.array_equal(first, elsewhere)

    def test_leaves_state_and_model_alone(self, scene: Scene, renderer: Renderer) -> None:
        state, sizes = state_at(scene, 0.3), scene.simulated_model.geom_size.copy()
        before = state.copy()
        renderer.render(state, {"geom_size": sizes * 2})
        assert np.array_equal(state, before)
        assert np.array_equal(scene.simulated_model.geom_size, sizes)

    def test_shows_fields_that_differ_from_the_models(self, scene: Scene, renderer: Renderer) -> None:
        usual = renderer.render(scene.initial_state, camera="front")
        sizes = scene.model.geom_size.copy()
        sizes[scene.model.geom("ball").id] *= 0.2
        small = renderer.render(scene.initial_state, {"geom_size": sizes, "opt.gravity": np.zeros(3)}, "front")
        assert pixels(small, BLUE).sum() < 0.2 * pixels(usual, BLUE).sum()
        assert np.array_equal(renderer.render(scene.initial_state, camera="front"), usual)

    def test_nice_frames_have_shadows_and_reflections(self, scene: Scene, renderer: Renderer) -> None:
        fast = renderer.render(scene.initial_state, camera="front")
        with Renderer(scene.simulated_model, SIZE, "nice") as nice:
            frame = nice.render(scene.initial_state, camera="front")
        changed = np.abs(frame.astype(int) - fast).max(axis=-1) > 20
        assert changed[24:].sum() > 100  # on the floor
        assert changed[:8].sum() == 0  # in the sky

    def test_size_is_that_asked_for_whatever_the_model_allows(self, scene: Scene) -> None:
        scene.model.vis.global_.offwidth = 10
        with Renderer(scene.model, (301, 7)) as renderer:
            assert renderer.render(scene.initial_state).shape == (7, 301, 3)

    @pytest.mark.parametrize("size", [(0, 5), (5, -1)])
    def test_impossible_size_is_refused(self, scene: Scene, size: tuple[int, int]) -> None:
        with pytest.raises(ValueError, match="at least 1 pixel wide and high"):
            Renderer(scene.model, size)

    def test_unknown_quality_is_refused(self, scene: Scene) -> None:
        with pytest.raises(ValueError, match=r"one of \('fast', 'nice'\), got 'best'"):
            Renderer(scene.model, SIZE, "best")  # type: ignore[arg-type]


class TestCameras:
    @pytest.mark.parametrize("follows", ["ball", 1])
    def test_view_follows_a_body(self, scene: Scene, renderer: Renderer, follows: str | int) -> None:
        view = View(distance=5, elevation=-10, follows=follows)
        for x in (0.0, 37.5):
            row, column = where(renderer.render(state_at(scene, x), camera=view), BLUE)
            assert (row, column) == pytest.approx((0.5, 0.5), abs=0.06)

    def test_view_looks_at_a_point(self, scene: Scene, renderer: Renderer) -> None:
        view = View(distance=6, elevation=0, azimuth=90, lookat=(0, 0, 2))
        assert where(renderer.render(scene.initial_state, camera=view), RED) == pytest.approx((0.5, 0.5), abs=0.06)

    def test_without_a_follow_camera_the_whole_model_is_seen(self, scene: Scene, renderer: Renderer) -> None:
        frame = renderer.render(scene.initial_state)
        where(frame, RED)
        where(frame, BLUE)

    def test_follow_camera_of_the_model_is_the_default(self) -> None:
        model = mujoco.MjModel.from_xml_string(SCENERY.replace('name="front"', 'name="track"'))
        state = Scene("tracked", model).initial_state
        with Renderer(model, SIZE) as renderer:
            assert np.array_equal(renderer.render(state), renderer.render(state, camera="track"))

    @pytest.mark.parametrize(
        ("camera", "message"),
        [
            ("rear", "no camera 'rear'; it has front"),
            (View(distance=1, follows="bal"), "no body 'bal'; it has world, ball"),
            (View(distance=1, follows=2), "no body 2: its bodies are numbered from 0 to 1"),
            (View(distance=1, follows=-1), "no body -1: its bodies are numbered from 0 to 1"),
        ],
    )
    def test_unknown_bodies_and_cameras_are_refused(
        self, scene: Scene, renderer: Renderer, camera: str | View, message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            renderer.render(scene.initial_state, camera=camera)


WALKER = """
<mujoco>
  <statistic extent="3" center="0 0 1"/>
  <worldbody>
    <body name="trunk" pos="0 0 1">
      <freejoint/>
      <camera name="track" mode="trackcom" pos="0 -3 0" xyaxes="1 0 0 0 0 1"/>
      <geom size="0.2" mass="2"/>
      <body name="arm" pos="0.5 0 0">
        <joint axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.05" mass="1"/>
      </body>
    </body>
  </worldbody>
</mujoco>"""


class TestParameters:
    """Fields that differ from the model's, and all that MuJoCo computes from them."""

    @staticmethod
    def constants(model: mujoco.MjModel) -> dict[str, np.ndarray]:
        fields = {name: getattr(model, name) for name in dir(model) if not name.startswith("_")}
        found = {name: value.copy() for name, value in fields.items() if isinstance(value, np.ndarray)}
        return found | {"extent": np.array(model.stat.extent), "center": model.stat.center.copy()}

    def test_what_follows_from_them_follows_and_is_undone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scene = Scene("walker", mujoco.MjModel.from_xml_string(WALKER))
        computed: list[int] = []
        set_const = mujoco.mj_setConst
        monkeypatch.setattr(mujoco, "mj_setConst", lambda *given: (computed.append(1), set_const(*given)))
        shown = Simulated(scene.simulated_model)
        usual, state = self.constants(shown.model), scene.initial_state.copy()
        state[1] = 50.0
        heavy, light = (scene.model.body_mass * factors for factors in ([1, 1, 5], [1, 3, 0.1]))
        for mass, times in ((heavy, 1), (heavy.copy(), 1), (light, 2), (heavy, 3), (heavy, 3)):
            shown.put(state, {"body_mass": mass, "opt.gravity": np.zeros(3)})
            assert len(computed) == times
            trunk, arm = (shown.data.xipos[shown.model.body(name).id] for name in ("trunk", "arm"))
            centre = (mass[1] * trunk + mass[2] * arm) / (mass[1] + mass[2])
            np.testing.assert_allclose(shown.data.subtree_com[1], centre)
            np.testing.assert_allclose(shown.data.cam_xpos[0], centre + shown.model.cam_poscom0[0])
            assert np.array_equal(shown.data.qpos, state[1 : 1 + scene.model.nq])
            assert shown.data.time == state[0]
        for _ in range(2):
            shown.put(state)
            assert len(computed) == 4
            assert self.constants(shown.model).keys() == usual.keys()
            for name, value in self.constants(shown.model).items():
                assert np.array_equal(value, usual[name], equal_nan=value.dtype.kind == "f"), name


class TestLifetime:
    def test_closed_renderer_says_so(self, scene: Scene) -> None:
        renderer = Renderer(scene.model, SIZE)
        renderer.close()
        renderer.close()
        assert renderer.closed
        with pytest.raises(RuntimeError, match="renderer is closed"):
            renderer.render(scene.initial_state)

    def test_scene_has_one_renderer_per_size_and_quality_until_nobody_holds_it(self, scene: Scene) -> None:
        first, second = (shared_renderer(scene, SIZE, "fast") for _ in range(2))
        smaller = shared_renderer(scene, (32, 24), "fast")
        assert first is second
        assert first is not smaller
        watched, finalizer = weakref.ref(first), first._finalizer
        del first
        gc.collect()
        assert watched() is second
        del second
        gc.collect()
        assert watched() is None
        assert not finalizer.alive  # freed
        smaller.close()
        assert shared_renderer(scene, (32, 24), "fast") is not smaller  # a closed one is not handed out

    def test_closing_frees_what_it_holds(self, scene: Scene) -> None:
        renderer = Renderer(scene.model, SIZE)
        context = renderer._context
        assert context._context
        renderer.close()
        assert context._context is None

    def test_neither_files_nor_threads_are_left(self, scene: Scene) -> None:
        def cycle() -> tuple[int, int]:
            with Renderer(scene.model, (16, 16)) as renderer:
                renderer.render(scene.initial_state)
            return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

        before = cycle()
        assert [cycle() for _ in range(5)] == [before] * 5

    def test_threads_take_turns(self, scene: Scene, renderer: Renderer) -> None:
        states = [state_at(scene, x) for x in (-0.5, 0.0, 0.5)]
        expected = [renderer.render(state) for state in states]
        equal: list[bool] = []

        def draw(index: int) -> None:
            equal.extend(np.array_equal(renderer.render(states[index]), expected[index]) for _ in range(20))

        threads = [threading.Thread(target=draw, args=(index,)) for index in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(equal) == 60
        assert all(equal)

    def test_may_be_made_in_one_thread_and_closed_in_another(self, scene: Scene) -> None:
        made: list[Renderer] = []
        thread = threading.Thread(target=lambda: made.append(Renderer(scene.model, SIZE)))
        thread.start()
        thread.join()
        assert made[0].render(scene.initial_state).any()
        made[0].close()

    def test_closing_waits_for_the_frame_that_another_thread_draws(self, scene: Scene) -> None:
        def draw(renderer: Renderer, began: threading.Event, ended: list[BaseException]) -> None:
            try:
                while True:
                    renderer.render(scene.initial_state)
                    began.set()
            except BaseException as error:
                ended.append(error)

        for _ in range(5):
            renderer, began, ended = Renderer(scene.model, SIZE), threading.Event(), []
            context = renderer._context
            thread = threading.Thread(target=draw, args=(renderer, began, ended))
            thread.start()
            assert began.wait(30)
            renderer.close()
            assert context._context is None
            thread.join(30)
            assert [(type(error), str(error)) for error in ended] == [
                (RuntimeError, "This renderer is closed: make a new one.")
            ]

    def test_at_exit_one_that_cannot_be_closed_keeps_no_other_open(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stuck, others = Renderer(scene.model, SIZE), [Renderer(scene.model, SIZE) for _ in range(2)]
        monkeypatch.setattr(rendering_module, "_open_renderers", [others[0], stuck, others[1]])
        monkeypatch.setattr(rendering_module, "_SECONDS_AT_EXIT", 0.05)
        with stuck._lock, pytest.raises(RuntimeError, match=r"drawing one frame for 0\.05 s"):
            rendering_module._close_all()
        assert [other._context._context for other in others] == [None, None]
        assert stuck._context._context
        stuck.close()
        assert stuck._context._context is None


def run_alone(source: str, **variables: str) -> str:
    """What a script prints; it must end well, and say nothing else."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


OPEN = """
    import multiprocessing, os, mujoco
    from superdex.physics import Scene
    from superdex.physics.rendering import Renderer
    scene = Scene("empty", mujoco.MjModel.from_xml_string("<mujoco/>"))
"""

# What a machine without any of the libraries looks like to Python.
BARE = """
    import ctypes
    load = ctypes.CDLL.__init__
    def refuse(self, name, *args, **kwargs):
        if name and any(part in str(name) for part in ("EGL", "OSMesa", "OpenGL", "libGL")):
            raise OSError(f"{name}: cannot open shared object file")
        load(self, name, *args, **kwargs)
    ctypes.CDLL.__init__ = refuse
"""


class TestProcesses:
    def test_forked_child_is_refused_and_all_ends_well(self) -> None:
        printed = run_alone(
            OPEN
            + """
    renderer = Renderer(scene.model, (16, 16))
    renderer.render(scene.initial_state)
    def child():
        assert renderer.closed
        for action in (lambda: renderer.render(scene.initial_state), lambda: Renderer(scene.model, (16, 16))):
            try:
                action()
            except RuntimeError as error:
                print(error, flush=True)
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(30)
    print(process.exitcode, renderer.render(scene.initial_state).shape, "MUJOCO_GL" in os.environ)
    """
        )  # the renderer is still open at the end
        *refusals, last = printed.splitlines()
        assert len(refusals) == 2
        assert all("forked from one that has rendered" in line for line in refusals)
        chosen = "MUJOCO_GL" in os.environ
        assert last == f"0 (16, 16, 3) {chosen}"

    def test_process_ends_well_while_a_daemon_thread_draws(self) -> None:
        printed = run_alone(
            OPEN
            + """
    import atexit, threading
    said, drawn = threading.Event(), threading.Semaphore(0)
    atexit.register(said.wait, 30)  # before any of OpenGL, hence run after it has ended
    renderer = Renderer(scene.model, (200, 200))
    def draw():
        for action in (lambda: renderer.render(scene.initial_state), lambda: Renderer(scene.model, (16, 16))):
            try:
                while True:
                    action()
                    drawn.release()
            except RuntimeError as error:
                print(error, flush=True)
        said.set()
    threading.Thread(target=draw, daemon=True).start()
    for _ in range(5):
        drawn.acquire()
    """
        )
        assert printed.splitlines() == [
            "This renderer is closed: make a new one.",
            "Nothing can be rendered any more: this process is ending.",
        ]

    @pytest.mark.parametrize(
        ("choice", "expected", "absent"),
        [
            ("", ["install libegl1 libopengl0 libgl1-mesa-dri (or: libosmesa6).", "egl: ", "osmesa: "], "MUJOCO_GL"),
            ("egl", ["with MUJOCO_GL=egl", "apt-get install libegl1 libopengl0 libgl1-mesa-dri."], "osmesa"),
            ("osmesa", ["with MUJOCO_GL=osmesa", "apt-get install libosmesa6."], "egl"),
            ("off", ["Rendering is off: MUJOCO_GL=off is set."], "apt-get"),
        ],
    )
    def test_bare_machine_is_told_what_to_install(self, choice: str, expected: list[str], absent: str) -> None:
        # set once MuJoCo is imported, which looks for the library by itself
        printed = run_alone(
            BARE
            + OPEN
            + f"""
    os.environ["MUJOCO_GL"] = {choice!r}
    try:
        Renderer(scene.model, (16, 16))
    except RuntimeError as error:
        print(error)
    """,
            MUJOCO_GL="",
            PYOPENGL_PLATFORM="",
        )
        for text in expected:
            assert text in printed
        assert absent not in printed.partition("Tried")[0]

    def test_backend_is_known_once_something_was_drawn(self, renderer: Renderer) -> None:
        assert backend_name() in ("egl", "osmesa", "glfw", "native")


class FakeWindow:
    """What `launch_passive` returns, without a window."""

    def __init__(self) -> None:
        self.cam = mujoco.MjvCamera()
        self.open, self.synced = True, 0

    def is_running(self) -> bool:
        return self.open

    def lock(self) -> threading.Lock:
        return threading.Lock()

    def sync(self) -> None:
        self.synced += 1

    def close(self) -> None:
        self.open = False


class TestViewer:
    @pytest.fixture
    def window(self, monkeypatch: pytest.MonkeyPatch) -> FakeWindow:
        window = FakeWindow()
        monkeypatch.setattr(viewer, "require_display", lambda: None)
        monkeypatch.setattr(viewer, "_require_window", lambda: None)
        monkeypatch.setattr(viewer, "_launch", lambda shown: (window, []))
        return window

    def test_no_display_is_said(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "linux")
        for name in ("DISPLAY", "WAYLAND_DISPLAY"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(
            RuntimeError, match="needs a display, and there is none: neither DISPLAY nor WAYLAND_DISPLAY"
        ):
            Viewer(scene.model)

    def test_shows_states_in_real_time_until_it_is_closed(
        self, scene: Scene, window: FakeWindow, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slept: list[float] = []
        monkeypatch.setattr(viewer.time, "sleep", slept.append)
        with Viewer(scene.model, "front") as shown:
            assert window.cam.type == mujoco.mjtCamera.mjCAMERA_FIXED
            for time in (0.0, 0.5, 0.5, 0.0):
                state = state_at(scene, 3.0)
                state[0] = time
                shown.show(state)
            assert shown._shown.data.geom("ball").xpos[0] == 3.0
            assert window.synced == 4
            assert slept == [pytest.approx(0.5, abs=0.1), pytest.approx(0.0, abs=0.1), 0.0]
            window.open = False
            assert not shown.is_running
            shown.show(state_at(scene, 9.0))
            assert window.synced == 4

    def test_closes_its_window(self, scene: Scene, window: FakeWindow) -> None:
        with Viewer(scene.model) as shown:
            assert shown.is_running
        assert not window.open
        shown.close()


class TestLaunch:
    """How a window is waited for. MuJoCo's viewer is replaced by one without a window."""

    @pytest.fixture
    def window(self) -> FakeWindow:
        return FakeWindow()

    @pytest.fixture
    def release(self, window: FakeWindow, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
        """Set to let the window open; its thread runs until it is closed."""
        release = threading.Event()

        def _launch_internal() -> None:
            assert closed.wait(30)

        def launch_passive(*args: object, **kwargs: object) -> FakeWindow:
            assert release.wait(30)
            threading.Thread(target=_launch_internal, daemon=True).start()
            return window

        closed = threading.Event()
        monkeypatch.setattr(window, "close", closed.set)
        monkeypatch.setattr(window, "is_running", lambda: not closed.is_set())
        mujoco_viewer = types.ModuleType("mujoco.viewer")
        mujoco_viewer.launch_passive = launch_passive  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "mujoco.viewer", mujoco_viewer)
        monkeypatch.setattr(mujoco, "viewer", mujoco_viewer, raising=False)
        yield release
        release.set()
        closed.set()

    def test_threads_that_others_start_meanwhile_are_not_the_windows(
        self, scene: Scene, window: FakeWindow, release: threading.Event
    ) -> None:
        end = threading.Event()

        def start_others() -> None:
            while not any(thread.name == "superdex-viewer" for thread in threading.enumerate()):
                pass
            threading.Thread(target=end.wait, args=(30,), name="other", daemon=True).start()
            release.set()

        starter = threading.Thread(target=start_others)
        starter.start()
        handle, threads = viewer._launch(viewer.Simulated(scene.model))
        starter.join(30)
        assert handle is window
        assert [thread.name.partition(" ")[2] for thread in threads] == ["(_launch_internal)"]
        viewer._close(handle, threads)  # does not wait for the other
        assert not end.is_set()
        assert not threads[0].is_alive()
        end.set()

    def test_window_that_opens_too_late_is_closed(
        self, scene: Scene, window: FakeWindow, release: threading.Event, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(viewer, "_OPEN_SECONDS", 0.05)
        with pytest.raises(RuntimeError, match=r"No window opened within 0\.05 s"):
            viewer._launch(viewer.Simulated(scene.model))
        assert window.is_running()
        (launcher,) = [thread for thread in threading.enumerate() if thread.name == "superdex-viewer"]
        release.set()
        launcher.join(30)
        assert not window.is_running()
