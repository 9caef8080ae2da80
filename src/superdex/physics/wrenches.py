"""The wrenches of contacts on bodies, in models that have no sensor that needs them.

    model = load_model("ant.xml", compute_wrenches)
    batch = Scene("ant", model).make_batch(1000)
    batch.track(["cfrc_ext"])

MuJoCo computes `cfrc_ext` (in `mj_rnePostConstraint`) only for sensors, and then at
the beginning of a physics step. `compute_wrenches` has it computed at the end of
each step instead, from what the step computed last, as if `mj_rnePostConstraint`
was called after `mj_step`. With the integrator RK4 the two differ: the last stage of
a step is not its first. `mj_forward` does not compute it: it is zero after a reset,
until the next step.

How: MuJoCo calls a plugin's `advance(model, data, instance)` natively at the end of
each step, whatever the integrator. `mj_rnePostConstraint(model, data)` is put in this
place: a plugin that needs no code of its own, keeps no state and adds no force. It
costs that pass per physics step, about 0.5 us for 14 bodies. (It computes `cacc` and
`cfrc_int`, too, but these take velocities from before the end of an RK4 step, which
is why they are not given.)
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import mujoco

__all__ = ["WRENCH_PLUGIN", "compute_wrenches"]

WRENCH_PLUGIN = "superdex.wrenches"
"""The plugin's name, and that of its instance in a model."""

# mjpPlugin of mjplugin.h
_STRINGS_AND_FLAGS = [
    ("name", ctypes.c_char_p),
    ("nattribute", ctypes.c_int),
    ("attributes", ctypes.c_void_p),
    ("capabilityflags", ctypes.c_int),
    ("needstage", ctypes.c_int),
]
_CALLBACKS = (
    "nstate nsensordata init destroy copy reset compute advance visualize actuator_act_dot sdf_distance sdf_gradient"  # noqa: SIM905
    " sdf_staticdistance sdf_attribute sdf_aabb".split()
)


class _Plugin(ctypes.Structure):
    _fields_ = [*_STRINGS_AND_FLAGS, *((name, ctypes.c_void_p) for name in _CALLBACKS)]


def compute_wrenches(spec: mujoco.MjSpec) -> None:
    """Have the steps of a model compute `cfrc_ext`; an edit for `load_model`."""
    _register()
    spec.activate_plugin(WRENCH_PLUGIN)
    spec.add_plugin(name=WRENCH_PLUGIN, plugin_name=WRENCH_PLUGIN, active=True)


@cache
def _register() -> _Plugin:
    """Make the plugin known to MuJoCo in this process; the result must be kept."""
    (path,) = Path(mujoco.__file__).parent.glob("libmujoco.*")
    library = ctypes.CDLL(str(path))  # the one that is loaded already
    plugin = _Plugin()
    library.mjp_defaultPlugin(ctypes.byref(plugin))
    plugin.name = WRENCH_PLUGIN.encode()
    # MuJoCo asks for these four: a native function that ignores its arguments and returns 0. Without a capability,
    # none is called while physics runs.
    for required in ("nstate", "init", "reset", "compute"):
        setattr(plugin, required, _address(ctypes.CDLL(None).sched_yield))
    plugin.advance = _address(library.mj_rnePostConstraint)
    library.mjp_registerPlugin(ctypes.byref(plugin))
    return plugin


def _address(function: ctypes._CFuncPtr) -> int | None:  # type: ignore[name-defined]
    return ctypes.cast(function, ctypes.c_void_p).value
