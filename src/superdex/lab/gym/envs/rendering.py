"""How environments are shown: frames and windows of their present state, without a trace in it.

    env = gymnasium.make("superdex_gym/Ant-v0", render_mode="rgb_array", render_size=(320, 240))
    env.reset(seed=0)
    frame = env.render()                    # (240, 320, 3) uint8

`render_mode="human"` opens a window that every reset and step brings up to date, at the
pace of real time. Environments of one scene share what draws their frames, and each
frame is drawn from the environment's own row: see `superdex.physics.rendering`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from gymnasium.error import UnsupportedMode

from superdex.physics.rendering import Frame, Renderer, View, Viewer, shared_renderer

if TYPE_CHECKING:
    from superdex.lab.gym.envs.config import TaskCfg
    from superdex.lab.gym.envs.task_batch import TaskBatch
    from superdex.physics import Scene

__all__ = ["RENDER_MODES", "Rendered"]

RENDER_MODES = ("human", "rgb_array")


class Rendered:
    """The part of `MochiEnv` that renders."""

    view: ClassVar[View | str | None] = None
    """Where pictures are taken from: a view, or a camera of the model; None for its camera "track", if it has one."""
    frame_size: ClassVar[tuple[int, int]] = (640, 480)
    """Width and height of frames [pixels] where the configuration does not say."""

    own_attributes: ClassVar[frozenset[str]] = frozenset({"_renderer", "_viewer"})
    """See `MochiEnv.own_attributes`."""

    cfg: TaskCfg
    scene: Scene
    render_mode: str | None
    _renderer: Renderer | None = None
    _viewer: Viewer | None = None

    if TYPE_CHECKING:

        @property
        def batch(self) -> TaskBatch:
            """See `MochiEnv.batch`."""
            ...

    def render(self) -> Frame | None:
        """Show the present state: a frame (height, width, 3) of "rgb_array", or the window of "human" (None).

        Where an autoreset has just begun a new episode, that is its first state.

        Raises:
            gymnasium.error.UnsupportedMode: if the environment was made without a render mode.
            RenderingError: (of `superdex.physics.rendering`) if the machine cannot draw, or has no display for a
                window: the message says what to do.
            ValueError: if the model has no camera of the name that the configuration gives.
        """
        if self.render_mode is None:
            raise UnsupportedMode(
                f"This {type(self).__name__} was made to be run, not shown: give it render_mode='rgb_array' for frames,"
                " or 'human' for a window."
            )
        if self.render_mode == "human":
            self.show_in_window()
            return None
        renderer = self._renderer  # another thread may close this environment meanwhile
        if renderer is None or renderer.closed:
            size = self.cfg.render_size or self.frame_size
            renderer = self._renderer = shared_renderer(self.scene, size, self.cfg.render_quality)
        return renderer.render(*self._snapshot(), self._camera)

    def show_in_window(self) -> bool:
        """Show the present state in the environment's window, whatever the render mode, at the pace of real time.

        The first call opens the window. One that was closed stays closed: then nothing happens, and False is returned.

        Raises:
            RenderingError, ValueError: as `render`.
        """
        viewer = self._viewer
        if viewer is None:
            viewer = self._viewer = Viewer(self.scene.simulated_model, self._camera)
        viewer.show(*self._snapshot())
        return viewer.is_running

    @property
    def _camera(self) -> View | str | None:
        return self.cfg.render_camera or self.view

    def _snapshot(self) -> tuple[np.ndarray, dict[str, Any]]:
        """The present state, and the values of the parameters that each environment has its own of."""
        physics = self.batch.physics
        return physics.state[0], {name: physics.parameter(name)[0] for name in physics.expanded}

    def _stop_showing(self) -> None:
        """Let go of the renderer, which lives on while other environments use it, and close the window."""
        self._renderer = None
        if self._viewer is not None:
            self._viewer.close()
            self._viewer = None
