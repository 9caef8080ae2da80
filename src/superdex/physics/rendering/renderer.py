"""Frames of simulations, drawn from their snapshots.

    with Renderer(scene.simulated_model, size=(640, 480)) as renderer:
        frame = renderer.render(batch.state[7])          # (480, 640, 3) uint8

A renderer has a model and a simulation of its own, into which it copies the state that
it is to draw: nothing that it does reaches the simulation that the state came from, and
a frame depends on the state alone, not on what was drawn before.

Making one takes a few tenths of a second and some megabytes, so the environments of a
scene share one: `shared_renderer`. It is freed as soon as the last of them lets go of it.

`quality` is "fast", without shadows, reflections and smoothed edges, which is 6 to 20 times
faster where a CPU draws; or "nice", as the model's author meant it to look.
"""

from __future__ import annotations

import copy
import os
import threading
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Literal, Self, get_args

import mujoco
import numpy as np
from numpy.typing import NDArray

from superdex.physics.rendering.cameras import View, make_camera
from superdex.physics.rendering.context import (
    GL_LOCK,
    RenderingError,
    chosen_for_mujoco,
    open_context,
    require_same_process,
    run_before_gl_ends,
)
from superdex.physics.scene import Scene

__all__ = ["Frame", "RenderQuality", "Renderer", "Simulated", "check_quality", "check_size", "shared_renderer"]

Frame = NDArray[np.uint8]
"""(height, width, 3) red, green, blue; the first row is the top one."""

RenderQuality = Literal["fast", "nice"]

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION.value
_MAX_GEOMS = 10_000
_SECONDS_AT_EXIT = 10.0
_COSTLY = (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION)


def check_size(size: Any) -> tuple[int, int]:
    """Width and height [pixels] of a frame, or ValueError."""
    width, height = size
    if width < 1 or height < 1:
        raise ValueError(f"A frame is at least 1 pixel wide and high, got a size of {width} x {height}.")
    return int(width), int(height)


def check_quality(quality: str) -> RenderQuality:
    """The quality of that name, or ValueError."""
    if quality not in get_args(RenderQuality):
        raise ValueError(f"The quality of frames is one of {get_args(RenderQuality)}, got {quality!r}.")
    return quality  # type: ignore[return-value]


class Simulated:
    """A model and a simulation for looking at only: copies, into which states are put.

    Args:
        model: copied; must have the structure of the states' models.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        self.model = copy.copy(model)
        self.data = mujoco.MjData(self.model)
        self._changed: dict[str, np.ndarray] = {}

    def put(self, state: NDArray[np.float64], parameters: Mapping[str, np.ndarray] | None = None) -> None:
        """Take on a snapshot, (nstate,), and compute where everything is then.

        Args:
            state: of kind `mjSTATE_INTEGRATION`.
            parameters: model fields that differ from the model's, by name, as of `SceneBatch.parameter`.
        """
        model, data = self.model, self.data
        if self._put_parameters(parameters or {}):  # what follows from them, such as where a camera is that tracks
            mujoco.mj_setConst(model, data)  # leaves another state behind
        mujoco.mj_setState(model, data, state, _STATE)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        mujoco.mj_flex(model, data)
        mujoco.mj_tendon(model, data)

    def _put_parameters(self, parameters: Mapping[str, np.ndarray]) -> bool:
        """Whether any field has another value than before."""
        undone = self._changed.keys() - parameters.keys()
        for name in undone:
            getattr(self.model, name)[...] = self._changed.pop(name)
        changed = bool(undone)
        for name, value in parameters.items():
            if name.startswith("opt."):  # options change how things move, not where they are
                continue
            field = getattr(self.model, name)
            self._changed.setdefault(name, field.copy())
            if not np.array_equal(field, value):
                field[...] = value
                changed = True
        return changed


class Renderer:
    """Draws snapshots of one model; see the module's docstring. Any thread may use it, one at a time.

    Args:
        model: what to draw; copied.
        size: width and height of a frame [pixels].
        quality: "fast" or "nice".

    Raises:
        ValueError: if size or quality are impossible.
        RenderingError: if this machine has no OpenGL; the message says what to install.
    """

    def __init__(
        self, model: mujoco.MjModel, size: tuple[int, int] = (640, 480), quality: RenderQuality = "fast"
    ) -> None:
        width, height = self.size = check_size(size)
        self.quality = check_quality(quality)
        self._shown = Simulated(model)
        visual = self._shown.model.vis
        visual.global_.offwidth, visual.global_.offheight = width, height
        if quality == "fast":
            visual.quality.offsamples = 0
            visual.quality.shadowsize = 0
        self._rectangle = mujoco.MjrRect(0, 0, width, height)
        self._options = mujoco.MjvOption()
        self._geoms = mujoco.MjvScene(self._shown.model, _MAX_GEOMS)
        if quality == "fast":
            for flag in _COSTLY:
                self._geoms.flags[flag] = 0
        self._lock = threading.Lock()  # held while something is drawn, and while this is freed
        self._closing = False
        self._owner = os.getpid()
        self._context, self._drawing = _open(self._shown.model, self.size)
        self._finalizer = weakref.finalize(self, _free, self._context, self._drawing, self._owner)
        self._finalizer.atexit = False  # by then contexts would have ended: see `_close_all`
        _open_renderers.add(self)

    @property
    def closed(self) -> bool:
        """Whether it was closed, or belongs to the process that this one was forked from."""
        return self._closing or os.getpid() != self._owner

    def render(
        self,
        state: NDArray[np.float64],
        parameters: Mapping[str, np.ndarray] | None = None,
        camera: str | View | None = None,
    ) -> Frame:
        """The frame, (height, width, 3), of a snapshot (nstate,).

        Args:
            state: of kind `mjSTATE_INTEGRATION`, as a row of `SceneBatch.state`.
            parameters: model fields that this simulation has a value of its own for, by name.
            camera: where from; see `superdex.physics.rendering.cameras`.

        Raises:
            ValueError: if the model has no such camera.
            RuntimeError: if the renderer is closed.
            RenderingError: if this process was forked from its own.
        """
        require_same_process(self._owner)
        width, height = self.size
        pixels = np.empty((height, width, 3), np.uint8)
        with self._lock:
            if self._closing:
                raise RuntimeError("This renderer is closed: make a new one.")
            shown, geoms = self._shown, self._geoms
            shown.put(state, parameters)
            eye = make_camera(shown.model, camera)
            everything = mujoco.mjtCatBit.mjCAT_ALL.value
            # an endless floor is laid out around the camera of the scene, which is still the last frame's
            mujoco.mjv_updateCamera(shown.model, shown.data, eye, geoms)
            mujoco.mjv_updateScene(shown.model, shown.data, self._options, None, eye, everything, geoms)
            with self._context.as_current():
                mujoco.mjr_render(self._rectangle, geoms, self._drawing)
                mujoco.mjr_readPixels(pixels, None, self._rectangle, self._drawing)
        return pixels[::-1].copy()  # OpenGL counts rows from below

    def close(self) -> None:
        """Free what it holds, once no thread draws with it; harmless when repeated."""
        self._close_within(threading.TIMEOUT_MAX)

    def _close_within(self, seconds: float) -> None:
        if os.getpid() != self._owner:
            return  # in a forked child the lock may be that of a thread which is only in the parent
        self._closing = True  # a thread that draws in a loop gets no further frame, and so lets go of the lock
        if not self._lock.acquire(timeout=seconds):
            raise RuntimeError(f"A renderer could not be closed: it has been drawing one frame for {seconds:g} s.")
        try:
            self._finalizer()
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


_open_renderers: weakref.WeakSet[Renderer] = weakref.WeakSet()
_Key = tuple[tuple[int, int], RenderQuality]
_shared: weakref.WeakKeyDictionary[Scene, weakref.WeakValueDictionary[_Key, Renderer]] = weakref.WeakKeyDictionary()


def shared_renderer(scene: Scene, size: tuple[int, int], quality: RenderQuality) -> Renderer:
    """The renderer of that scene, size and quality in this process: one for all who hold it, made if there is none."""
    with GL_LOCK:
        renderers = _shared.setdefault(scene, weakref.WeakValueDictionary())
        renderer = renderers.get((size, quality))
        if renderer is None or renderer.closed:
            renderer = renderers[size, quality] = Renderer(scene.simulated_model, size, quality)
        return renderer


def _open(model: mujoco.MjModel, size: tuple[int, int]) -> tuple[Any, mujoco.MjrContext]:
    with GL_LOCK:
        context = open_context(*size)
        try:
            with context.as_current(), chosen_for_mujoco():
                drawing = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
                mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, drawing)
        except BaseException as error:
            context.free()
            if isinstance(error, mujoco.FatalError):
                raise RenderingError(f"MuJoCo cannot draw with this machine's OpenGL: {error}") from error
            raise
        return context, drawing


def _free(context: Any, drawing: mujoco.MjrContext, owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked child has copies of the handles, but nothing behind them
    with GL_LOCK:
        try:
            with context.as_current():
                drawing.free()
        finally:
            context.free()


def _close_all() -> None:
    with ExitStack() as stack:  # goes on after an error, and raises it at the end
        for renderer in list(_open_renderers):
            stack.callback(renderer._close_within, _SECONDS_AT_EXIT)


run_before_gl_ends(_close_all)
