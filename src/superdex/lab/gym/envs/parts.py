"""Named parts of a model as hooks see them: a body's, joint's or actuator's share of the fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from superdex.lab.gym.envs.sim import Sim

__all__ = ["JointPart", "Part"]

# Fields of MjData with an entry per object, by MuJoCo's kinds of objects.
_FIELDS_OF = {
    "body": frozenset(
        "xpos xquat xmat xipos ximat xfrc_applied cvel cacc cinert crb cfrc_int cfrc_ext"  # noqa: SIM905
        " subtree_com subtree_linvel subtree_angmom".split()
    ),
    "geom": frozenset(["geom_xpos", "geom_xmat"]),
    "site": frozenset(["site_xpos", "site_xmat"]),
    "actuator": frozenset(["ctrl", "actuator_force", "actuator_length", "actuator_velocity"]),
}


class Part:
    """An object's entry of the fields of its kind, for all rows in play, under MuJoCo's full or short names."""

    __slots__ = ("_kind", "_sim", "id")

    def __init__(self, sim: Sim, kind: str, index: int) -> None:
        object.__setattr__(self, "_sim", sim)
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "id", index)

    def _field(self, name: str) -> NDArray[np.float64]:
        known = _FIELDS_OF[self._kind]
        for field in (name, f"{self._kind}_{name}"):
            if field in known:
                return self._sim.field(field)
        raise AttributeError(f"{name!r} is not a field of a {self._kind}; these are: {', '.join(sorted(known))}.")

    def __getattr__(self, name: str) -> NDArray[np.float64]:
        return self._field(name)[:, self.id]

    def __setattr__(self, name: str, value: Any) -> None:
        self._field(name)[:, self.id] = value


class JointPart:
    """A joint's coordinates, for all rows in play."""

    __slots__ = ("_qpos", "_qvel", "_sim")

    def __init__(self, sim: Sim, index: int) -> None:
        model, self._sim = sim.model, sim
        positions, velocities = _JOINT_SIZES[model.jnt_type[index]]
        self._qpos = slice(model.jnt_qposadr[index], model.jnt_qposadr[index] + positions)
        self._qvel = slice(model.jnt_dofadr[index], model.jnt_dofadr[index] + velocities)

    @property
    def qpos(self) -> NDArray[np.float64]:
        """(N, k) the joint's positions [m, rad, quaternion]."""
        return self._sim.qpos[:, self._qpos]

    @qpos.setter
    def qpos(self, value: Any) -> None:
        self._sim.qpos[:, self._qpos] = value

    @property
    def qvel(self) -> NDArray[np.float64]:
        """(N, m) the joint's velocities [m/s, rad/s]."""
        return self._sim.qvel[:, self._qvel]

    @qvel.setter
    def qvel(self, value: Any) -> None:
        self._sim.qvel[:, self._qvel] = value


# positions and velocities of a free, ball, slide and hinge joint (mjtJoint)
_JOINT_SIZES = ((7, 6), (4, 3), (1, 1), (1, 1))
