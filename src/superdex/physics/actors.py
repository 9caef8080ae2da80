"""The things in a scene: rigid bodies, articulations and deformables.

An actor names a part of the model and gives live views of that part of a
simulation. Each tree of bodies below the world is one: *rigid* if it is a
single body that is fixed or floats freely, *articulated* otherwise. A *ROM*
actor is a reduced-order deformable: a flex whose nodes interpolate it
(`MjModel.flex_interp > 0`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from superdex.physics.scene_batch import SceneBatch

__all__ = ["Actor", "ArticulatedActor", "RigidActor", "RomActor", "actors_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Actor:
    """A named part of a scene; the arrays are live views of one simulation."""

    name: str
    body_ids: tuple[int, ...]
    """Bodies of the model, the root first."""
    qpos: NDArray[np.float64]
    """(k,) positions of the actor's joints [m, rad]; a free joint has 3 coordinates and a quaternion."""
    qvel: NDArray[np.float64]
    """(m,) velocities of the actor's degrees of freedom [m/s, rad/s]."""
    ctrl: NDArray[np.float64]
    """(u,) controls of the actuators on the actor's joints, empty if these are not neighbours in the model."""
    applied_wrench: NDArray[np.float64]
    """(bodies, 6) force [N] and torque [N m] on each body at its centre of mass, in the world frame, until changed."""


class RigidActor(Actor):
    """A single body, fixed or floating."""


class ArticulatedActor(Actor):
    """Bodies connected by joints."""


class RomActor(Actor):
    """A reduced-order deformable; its state cannot be captured."""


def actors_of(model: mujoco.MjModel, batch: SceneBatch) -> tuple[Actor, ...]:
    """The actors of a model as views of a batch's first row, in the order of their root bodies."""
    rom_bodies = {
        mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_FLEX, flex): model.flex_nodebodyid[_nodes(model, flex)].tolist()
        for flex in range(model.nflex)
        if model.flex_interp[flex] > 0
    }
    node_bodies = {body for bodies in rom_bodies.values() for body in bodies}
    actors = []
    for root in np.flatnonzero(model.body_parentid == 0)[1:]:
        bodies = [int(body) for body in np.flatnonzero(model.body_rootid == root)]
        if node_bodies.isdisjoint(bodies):
            kind = RigidActor if _is_rigid(model, bodies) else ArticulatedActor
            actors.append(_make(kind, model, batch, model.body(root).name, bodies))
    actors += [_make(RomActor, model, batch, name, sorted(bodies)) for name, bodies in rom_bodies.items()]
    return tuple(actors)


def _nodes(model: mujoco.MjModel, flex: int) -> slice:
    return slice(model.flex_nodeadr[flex], model.flex_nodeadr[flex] + model.flex_nodenum[flex])


def _is_rigid(model: mujoco.MjModel, bodies: list[int]) -> bool:
    if len(bodies) > 1:
        return False
    joints = np.flatnonzero(model.jnt_bodyid == bodies[0])
    return joints.size == 0 or (joints.size == 1 and model.jnt_type[joints[0]] == mujoco.mjtJoint.mjJNT_FREE)


def _make(kind: type[Actor], model: mujoco.MjModel, batch: SceneBatch, name: str, bodies: list[int]) -> Actor:
    dofs = np.flatnonzero(np.isin(model.dof_bodyid, bodies))
    joints = np.flatnonzero(np.isin(model.jnt_bodyid, bodies))
    last = joints[-1] + 1 if joints.size else 0
    qpos_end = model.jnt_qposadr[last] if last < model.njnt else model.nq
    positions = np.arange(model.jnt_qposadr[joints[0]], qpos_end) if joints.size else joints
    on_joint = np.isin(model.actuator_trntype, (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT))
    controls = np.flatnonzero(on_joint & np.isin(model.actuator_trnid[:, 0], joints))
    return kind(
        name,
        tuple(bodies),
        batch.field("qpos")[0, _span(positions)],
        batch.field("qvel")[0, _span(dofs)],
        batch.field("ctrl")[0, _span(controls)],
        batch.field("xfrc_applied")[0, _span(np.array(bodies))],
    )


def _span(indices: np.ndarray) -> slice:
    """A run of indices as a slice, so that indexing gives a view; empty if it is not one run."""
    if indices.size == 0 or indices[-1] - indices[0] + 1 != indices.size:
        return slice(0, 0)
    return slice(int(indices[0]), int(indices[-1]) + 1)
