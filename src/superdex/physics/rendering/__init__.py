"""Pictures of simulations: frames without a display, and a window; see `renderer`, `cameras` and `viewer`."""

from superdex.physics.rendering.cameras import View, make_camera
from superdex.physics.rendering.context import RenderingError, backend_name
from superdex.physics.rendering.renderer import (
    Frame,
    Renderer,
    RenderQuality,
    check_quality,
    check_size,
    shared_renderer,
)
from superdex.physics.rendering.viewer import Viewer

__all__ = [
    "Frame",
    "RenderQuality",
    "Renderer",
    "RenderingError",
    "View",
    "Viewer",
    "backend_name",
    "check_quality",
    "check_size",
    "make_camera",
    "shared_renderer",
]
