"""Snapshots of a scene's dynamic state.

    handle = scene.capture_state()
    scene.step(100)
    scene.restore_state(handle)     # the clock is rewound, too

A snapshot is one `mjSTATE_INTEGRATION` vector and a step counter. It holds all
that decides the next step: poses, velocities, actuator state, controls, applied
forces, mocap poses, equality activations, the solver's warm start and the clock.
It does not hold what the model holds: topology, materials, joint limits, gravity.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

__all__ = ["StateHandle", "structure_of"]

# Whatever gives the entries of a state vector their meaning; parameters (masses, sizes, gains) may differ.
_STRUCTURE_FIELDS = (
    "names",
    "body_parentid",
    "body_mocapid",
    "jnt_type",
    "jnt_bodyid",
    "eq_type",
    "actuator_trntype",
    "actuator_dyntype",
    "actuator_actnum",
)


@dataclass(frozen=True, slots=True, eq=False)
class StateHandle:
    """One simulation's snapshot; `Scene.restore_state` puts it back."""

    scene_name: str
    structure: str
    """Digest of the model's structure, see `structure_of`."""
    state: NDArray[np.float64]
    """(nstate,) the mjSTATE_INTEGRATION vector; read-only."""
    step_count: int


def structure_of(model: mujoco.MjModel) -> str:
    """A digest that two models share exactly if a snapshot of one means the same in the other."""
    components = [1 << bit for bit in range(mujoco.mjtState.mjNSTATE.value)]
    sizes = [mujoco.mj_stateSize(model, component) for component in components]
    digest = hashlib.sha256(np.array(sizes).tobytes())
    for field in _STRUCTURE_FIELDS:
        value = getattr(model, field)
        digest.update(value if isinstance(value, bytes) else np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()
