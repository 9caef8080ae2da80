"""Where a picture is taken from.

View(distance=4, elevation=-15, follows="torso")     # around a body, wherever it goes
"track"                                              # a camera of the model, by name
None                                                 # the model's camera "track" or, without one, all of the model
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco

__all__ = ["FOLLOW_CAMERA", "View", "make_camera"]

FOLLOW_CAMERA = "track"
"""The camera of a model that is used if none is named: by custom it follows the robot."""


@dataclass(frozen=True, kw_only=True)
class View:
    """A view from outside the model: towards a point or a moving body, from a distance and two angles."""

    distance: float
    """From camera to what it looks at [m]."""
    azimuth: float = 90.0
    """Direction of view about the vertical [degrees]: 0 looks along +x, 90 along +y."""
    elevation: float = -20.0
    """Angle of the direction of view above the horizontal [degrees]; negative looks down."""
    follows: str | int | None = None
    """The body, by name or index (from 0, the world), whose subtree's centre of mass is looked at."""
    lookat: tuple[float, float, float] | None = None
    """The point that is looked at [m] if no body is followed; None for the model's centre."""


def make_camera(model: mujoco.MjModel, camera: str | View | None = None) -> mujoco.MjvCamera:
    """The camera that `camera` means in a model; see the module's docstring.

    Raises:
        ValueError: if the model has no camera or body of that name, or no body of that index.
    """
    result = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, result)
    if camera is None:
        index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, FOLLOW_CAMERA)
        camera = FOLLOW_CAMERA if index >= 0 else None
    if isinstance(camera, View):
        _aim(model, result, camera)
    elif camera is not None:
        result.type = mujoco.mjtCamera.mjCAMERA_FIXED
        result.fixedcamid = _id_of(model, mujoco.mjtObj.mjOBJ_CAMERA, "camera", camera)
    return result


def _aim(model: mujoco.MjModel, result: mujoco.MjvCamera, view: View) -> None:
    result.distance, result.azimuth, result.elevation = view.distance, view.azimuth, view.elevation
    if view.follows is not None:
        result.type = mujoco.mjtCamera.mjCAMERA_TRACKING
        body = view.follows
        if isinstance(body, str):
            body = _id_of(model, mujoco.mjtObj.mjOBJ_BODY, "body", body)
        elif not 0 <= body < model.nbody:
            raise ValueError(f"The model has no body {body}: its bodies are numbered from 0 to {model.nbody - 1}.")
        result.trackbodyid = body
    elif view.lookat is not None:
        result.lookat[:] = view.lookat


def _id_of(model: mujoco.MjModel, kind: mujoco.mjtObj, what: str, name: str) -> int:
    index = mujoco.mj_name2id(model, kind, name)
    if index < 0:
        count = model.ncam if what == "camera" else model.nbody
        names = [mujoco.mj_id2name(model, kind, i) for i in range(count)]
        raise ValueError(f"The model has no {what} {name!r}; it has {', '.join(filter(None, names)) or 'none'}.")
    return index
