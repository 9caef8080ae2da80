"""OpenGL without a display: which library gives it, and the contexts it gives.

On Linux EGL is tried first, then OSMesa, which always draws on the CPU. Whoever sets
`MUJOCO_GL` ("egl", "osmesa", "glfw") has chosen, and nothing else is tried. MuJoCo's own
default is a window system ("glfw"), which machines that train do not have; and it looks
at the variable once, as `mujoco` is imported, so here its contexts are taken from
`mujoco.egl` and `mujoco.osmesa` themselves.

A context is current in a thread only while something is drawn (`GLContext.as_current`),
so any thread may draw with it, one at a time. No context survives a fork: drivers keep
threads, which the child does not have, and would wait for them forever.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mujoco

__all__ = [
    "GL_LOCK",
    "PACKAGES",
    "RenderingError",
    "backend_name",
    "open_context",
    "require_same_process",
    "run_before_gl_ends",
]

PACKAGES = {"egl": "libegl1 libopengl0 libgl1-mesa-dri", "osmesa": "libosmesa6"}
"""What to install on Debian or Ubuntu for each."""

GL_LOCK = threading.RLock()
"""Held while contexts are made and freed, which the libraries do not expect at the same time in two threads."""

_CHOICE = "MUJOCO_GL"
_PLATFORM = "PYOPENGL_PLATFORM"
_DISABLED = ("disable", "disabled", "off", "false", "0")

_backend: str | None = None
_owner: int | None = None
_at_exit: list[Callable[[], None]] = []
_ended = False


class RenderingError(RuntimeError):
    """Nothing can be drawn on this machine, or by this process; the message says why, and what to do."""


def backend_name() -> str | None:
    """The library that this process draws with, "egl", "osmesa", "glfw" or "native"; None until it has drawn."""
    return _backend


def open_context(width: int, height: int) -> Any:
    """A new OpenGL context, as `mujoco.egl.GLContext` and its like; the caller frees it.

    Raises:
        RenderingError: if no library gives one; the message says why, and what to install. Or if
            this process was forked from one that has drawn, or is ending.
    """
    global _backend, _owner
    with GL_LOCK:
        if _ended:
            raise RenderingError("Nothing can be rendered any more: this process is ending.")
        if _owner is not None:
            require_same_process(_owner)
        reasons = {}
        for backend in (_backend,) if _backend else _candidates():
            platform = os.environ.get(_PLATFORM)
            modules = set(sys.modules)
            try:
                context = _context_class(backend)(width, height)
            except Exception as error:  # a missing library shows as ImportError, AttributeError, OSError, GLError, ...
                reasons[backend] = f"{type(error).__name__}: {error}"
                _forget_import(modules, platform)
            else:
                if _backend is None:
                    _backend, _owner = backend, os.getpid()
                    atexit.register(_end)  # after the library's own hook, hence run before it
                return context
    raise RenderingError(_explain(reasons))


def require_same_process(owner: int) -> None:
    """Raise RenderingError unless this is the process of that id, or it has not drawn."""
    if os.getpid() != owner:
        raise RenderingError(
            "This process was forked from one that has rendered, and OpenGL does not survive a fork. Start processes"
            " by spawning (multiprocessing.get_context('spawn')), or fork before the first frame is rendered."
        )


def run_before_gl_ends(action: Callable[[], None]) -> None:
    """Call `action` as the interpreter exits, while contexts can still be freed."""
    _at_exit.append(action)


@contextmanager
def chosen_for_mujoco() -> Iterator[None]:
    """Tell MuJoCo's own loader of OpenGL functions, which reads the variable when a context is made."""
    before = os.environ.get(_CHOICE)
    if before or _backend not in PACKAGES:
        yield
        return
    os.environ[_CHOICE] = _backend
    try:
        yield
    finally:
        del os.environ[_CHOICE]
        if before is not None:
            os.environ[_CHOICE] = before


def _candidates() -> tuple[str, ...]:
    choice = os.environ.get(_CHOICE, "").lower().strip()
    if choice in _DISABLED:
        raise RenderingError(f"Rendering is off: {_CHOICE}={choice} is set. Unset it.")
    if sys.platform != "linux":
        return ("native",)
    if choice:
        return (choice,) if choice in PACKAGES else ("glfw",)
    return tuple(PACKAGES)


def _context_class(backend: str) -> Any:
    if backend == "native":
        return mujoco.GLContext
    return importlib.import_module(f"mujoco.{backend}").GLContext


def _forget_import(before: set[str], platform: str | None) -> None:
    """Undo the import of PyOpenGL for a platform that failed, so that it can be imported for another."""
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "OpenGL" or name.startswith(("mujoco.egl", "mujoco.osmesa")):
            del sys.modules[name]
    for name in ("egl", "osmesa"):
        if f"mujoco.{name}" not in sys.modules and hasattr(mujoco, name):
            delattr(mujoco, name)
    if platform is None:
        os.environ.pop(_PLATFORM, None)


def _explain(reasons: dict[str, str]) -> str:
    tried = "; ".join(f"{backend}: {reason}" for backend, reason in reasons.items())
    packages = [PACKAGES[backend] for backend in reasons if backend in PACKAGES]
    remedy = ""
    if packages:
        remedy = f" On Debian or Ubuntu: apt-get install {packages[0]}"
        remedy += f" (or: {packages[1]})." if len(packages) > 1 else "."
    choice = os.environ.get(_CHOICE)
    chosen = f" with {_CHOICE}={choice}" if choice else ""
    return f"Cannot render{chosen}: no OpenGL without a display.{remedy} Tried {tried}"


def _end() -> None:
    global _ended
    with GL_LOCK:  # daemon threads still run
        _ended = True
    for action in _at_exit:
        action()
