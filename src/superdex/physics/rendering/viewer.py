"""A window that shows a simulation as it goes, in MuJoCo's interactive viewer.

    with Viewer(scene.simulated_model) as viewer:
        while viewer.is_running:                        # until the window is closed
            batch.step(num_substeps)
            viewer.show(batch.state[0])                 # sleeps as long as real time wants it to

The viewer has a model and a simulation of its own: what is pushed and pulled in the
window does not reach the simulation that is shown.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import mujoco
import numpy as np
from numpy.typing import NDArray

from superdex.physics.rendering.cameras import View, make_camera
from superdex.physics.rendering.context import RenderingError
from superdex.physics.rendering.renderer import Simulated

__all__ = ["Viewer", "require_display"]

_OPEN_SECONDS = 30.0
_CLOSE_SECONDS = 10.0
_LONGEST_SLEEP = 1.0
_launching = threading.Lock()
"""Held while a window opens, so that a viewer does not take another's threads for its own."""


def require_display() -> None:
    """Raise RenderingError if there can be no window, as on a server."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise RenderingError(
            "A window needs a display, and there is none: neither DISPLAY nor WAYLAND_DISPLAY is set. Render to"
            " frames (render_mode='rgb_array') or to a video instead."
        )


def _require_window() -> None:
    """Raise RenderingError unless the display takes windows with OpenGL; MuJoCo would end the process."""
    if sys.platform != "linux":
        return
    import glfw

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", glfw.GLFWError)  # said below
        window = None
        if glfw.init():
            glfw.window_hint(glfw.VISIBLE, glfw.FALSE)
            window = glfw.create_window(16, 16, "probe", None, None)
            glfw.default_window_hints()
    if not window:
        display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        raise RenderingError(
            f"No window with OpenGL can be opened on the display {display!r}. Check that it is there and may be used,"
            " or render to frames (render_mode='rgb_array') or to a video instead."
        )
    glfw.destroy_window(window)


class Viewer:
    """An open window; see the module's docstring.

    Args:
        model: what to show; copied.
        camera: where from, at first; see `superdex.physics.rendering.cameras`.

    Raises:
        RenderingError: if there is no display, or no window opens on it.
        ValueError: if the model has no such camera.
    """

    def __init__(self, model: mujoco.MjModel, camera: str | View | None = None) -> None:
        require_display()
        _require_window()
        self._shown = Simulated(model)
        eye = make_camera(self._shown.model, camera)
        self._handle, threads = _launch(self._shown)
        self._finalizer = weakref.finalize(self, _close, self._handle, threads)
        self._finalizer.atexit = False
        atexit.register(self._finalizer)  # after MuJoCo's hooks, hence run before: they end GLFW under a running window
        self._clock: tuple[float, float] | None = None  # simulated and real time of the last state shown
        with self._handle.lock():
            for name in ("type", "fixedcamid", "trackbodyid", "distance", "azimuth", "elevation"):
                setattr(self._handle.cam, name, getattr(eye, name))
            self._handle.cam.lookat[:] = eye.lookat

    @property
    def is_running(self) -> bool:
        """Whether the window is still open."""
        return self._handle.is_running()

    def show(self, state: NDArray[np.float64], parameters: Mapping[str, np.ndarray] | None = None) -> None:
        """Show a snapshot (nstate,), once as much time has gone by as in the simulation since the last one.

        Does nothing when the window was closed. `parameters`: see `Renderer.render`.
        """
        if not self.is_running:
            return
        with self._handle.lock():
            self._shown.put(state, parameters)
        self._wait()
        self._handle.sync()

    def _wait(self) -> None:
        simulated, now = float(self._shown.data.time), time.monotonic()
        if self._clock is not None:
            due = self._clock[1] + simulated - self._clock[0]  # in the past after a reset
            time.sleep(min(max(due - now, 0.0), _LONGEST_SLEEP))
        self._clock = simulated, time.monotonic()

    def close(self) -> None:
        """Close the window; harmless when repeated."""
        self._finalizer()
        atexit.unregister(self._finalizer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _launch(shown: Simulated) -> tuple[Any, list[threading.Thread]]:
    """The handle of a new window and the threads that run it. MuJoCo would wait for ever for one that cannot open."""
    from mujoco import viewer  # takes half a second, and needs GLFW

    opened: queue.Queue[Any] = queue.Queue()
    given_up = threading.Event()

    def launch() -> None:
        try:
            opened.put(viewer.launch_passive(shown.model, shown.data, show_left_ui=False, show_right_ui=False))
        except Exception as error:
            opened.put(error)
        if given_up.is_set():
            _close_late(opened)

    with _launching:
        before = set(threading.enumerate())
        threading.Thread(target=launch, name="superdex-viewer", daemon=True).start()
        try:
            handle = opened.get(timeout=_OPEN_SECONDS)
        except queue.Empty:
            given_up.set()
            _close_late(opened)  # if it opened just now
            raise RenderingError(f"No window opened within {_OPEN_SECONDS:g} s.") from None
        if isinstance(handle, Exception):
            raise RenderingError(f"The viewer could not be started: {handle}") from handle
        return handle, [thread for thread in threading.enumerate() if thread not in before and _runs_window(thread)]


def _runs_window(thread: threading.Thread) -> bool:
    """Whether it is one that `launch_passive` starts: Python names threads after their function."""
    return thread.name.endswith("(_launch_internal)")


def _close_late(opened: queue.Queue[Any]) -> None:
    """Close the window that nobody waits for any more, if it has opened. Either thread may come last."""
    with contextlib.suppress(queue.Empty):
        handle = opened.get_nowait()
        if not isinstance(handle, Exception):
            handle.close()


def _close(handle: Any, threads: list[threading.Thread]) -> None:
    handle.close()
    for thread in threads:
        thread.join(_CLOSE_SECONDS)
