"""What Humanoid-v5 and HumanoidStandup-v5 have in common: a body, and what it observes.

| part | size | |
|---|---|---|
| `qpos` | 22 | height [m], orientation quaternion, joint angles [rad]; 24 with x and y first if not left out |
| `qvel` | 23 | linear [m/s] and angular velocity of the torso, joint velocities [rad/s] |
| `cinert` | 130 | mass and inertia of each of 13 bodies about the centre of mass, if included |
| `cvel` | 78 | angular and linear velocity of each body at the centre of mass, if included |
| `qfrc_actuator` | 17 | torque of the actuators on each joint [N m], if included |
| `cfrc_ext` | 78 | contact wrench on each body, if included |

The last four are one substep behind the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from superdex.lab.gym.envs.gymnasium_v5.base import GymnasiumCfg, GymnasiumEnv, Range, squared_cost, unbounded
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays

__all__ = ["HumanoidBodyCfg", "HumanoidBodyEnv"]


@dataclass(frozen=True, kw_only=True)
class HumanoidBodyCfg(GymnasiumCfg):
    """Configuration of `HumanoidBodyEnv`."""

    frame_skip: int = 5
    reset_noise_scale: float = 1e-2
    ctrl_cost_weight: float = 0.1
    """Cost per squared unit of control."""
    exclude_current_positions_from_observation: bool = True
    """Whether the x and y positions are left out of the observation."""
    include_cinert_in_observation: bool = True
    """Whether the bodies' inertias are observed."""
    include_cvel_in_observation: bool = True
    """Whether the bodies' velocities are observed."""
    include_qfrc_actuator_in_observation: bool = True
    """Whether the actuators' torques are observed."""
    include_cfrc_ext_in_observation: bool = True
    """Whether contact wrenches are observed."""


class HumanoidBodyEnv(GymnasiumEnv):
    """Observes a humanoid; what it is to do is up to subclasses."""

    derived_fields = ("cfrc_ext", "ten_length", "ten_velocity")

    def __init__(self, cfg: HumanoidBodyCfg | Mapping[str, Any] | None = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self._observed = [name for name in _FIELDS if getattr(self.cfg, f"include_{name}_in_observation")]
        self.derived_fields = tuple(dict.fromkeys((*self.derived_fields, *self._observed)))

    def _observation_parts(self) -> dict[str, Box]:
        model = self.scene.model
        sizes = {"cinert": 10 * (model.nbody - 1), "qfrc_actuator": model.nv - 6}
        skipped = 2 * self.cfg.exclude_current_positions_from_observation
        parts = {"qpos": unbounded(model.nq - skipped), "qvel": unbounded(model.nv)}
        parts.update((name, unbounded(sizes.get(name, 6 * (model.nbody - 1)))) for name in self._observed)
        return parts

    def _body_observation(self, sim: Sim) -> StructuredArrays:
        skipped = 2 * self.cfg.exclude_current_positions_from_observation
        observation = {"qpos": sim.qpos[:, skipped:], "qvel": sim.qvel}
        for name in self._observed:  # without the world's, or the torso's
            observation[name] = sim.field(name)[:, _FIELDS[name] :].reshape(sim.num, -1)
        return observation

    def _tendons(self, sim: Sim) -> StructuredArrays:
        return {"tendon_length": sim.ten_length, "tendon_velocity": sim.ten_velocity}

    def _costs(self, sim: Sim, contact_weight: float, contact_range: Range) -> StructuredArrays:
        """Infos (N,): the costs of controls, which are float64 here, and of contacts."""
        wrenches = sim.cfrc_ext.reshape(sim.num, -1)
        contact: NDArray[np.float64] = np.clip(squared_cost(contact_weight, wrenches), *contact_range)
        return {"ctrl_cost": squared_cost(self.cfg.ctrl_cost_weight, sim.ctrl), "contact_cost": contact}


_FIELDS = {"cinert": 1, "cvel": 1, "qfrc_actuator": 6, "cfrc_ext": 1}
"""Fields that may be observed, and how many of their first entries are left out."""
