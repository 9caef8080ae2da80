"""Humanoid-v5: a two-legged robot with arms; walk along x without falling.

| | |
|---|---|
| action `ctrl` | (17,) torques on abdomen, hips, knees, shoulders and elbows, in [-0.4, 0.4] |
| observation | see `humanoid_body` |
| reward | `forward`: weight times mean x velocity of the centre of mass; `survive`: if healthy; |
| | `ctrl`, `contact`: -weight times squared controls, squared contact wrenches (clipped to a range) |
| terminated | "Unhealthy": torso height out of its range |
| truncated | "Steps per episode reached", after 1000 steps of 0.015 s |

Wrenches and the centre of mass are one substep behind the state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from superdex.lab.gym.envs.gymnasium_v5.base import Range
from superdex.lab.gym.envs.gymnasium_v5.humanoid_body import HumanoidBodyCfg, HumanoidBodyEnv
from superdex.lab.gym.envs.gymnasium_v5.spatial import SpatialWalkerCfg, SpatialWalkerEnv
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays
from superdex.physics.rendering import View

__all__ = ["HumanoidV5Cfg", "HumanoidV5Env"]


@dataclass(frozen=True, kw_only=True)
class HumanoidV5Cfg(HumanoidBodyCfg, SpatialWalkerCfg):
    """Configuration of `HumanoidV5Env`: the keywords of Gymnasium's Humanoid-v5."""

    xml_file: str = "humanoid.xml"
    forward_reward_weight: float = 1.25
    contact_cost_weight: float = 5e-7
    contact_cost_range: Range = (-np.inf, 10.0)
    """Range that the contact cost is clipped to."""
    healthy_reward: float = 5.0
    healthy_z_range: Range = (1.0, 2.0)


class HumanoidV5Env(HumanoidBodyEnv, SpatialWalkerEnv):
    """See the module's docstring."""

    Cfg = HumanoidV5Cfg
    cfg: HumanoidV5Cfg
    view = View(distance=4, elevation=-15, follows=1)
    derived_fields = (*HumanoidBodyEnv.derived_fields, "xipos")

    def _place(self, sim: Sim) -> NDArray[np.float64]:
        masses = sim.model.body_mass
        return np.einsum("b,nbj->nj", masses, sim.xipos)[:, :2] / masses.sum()

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        return self._body_observation(sim), {**self._whereabouts(sim), **self._tendons(sim)}

    def _make_step_info(self, sim: Sim) -> StructuredArrays:
        return {
            **super()._make_step_info(sim),
            **self._costs(sim, self.cfg.contact_cost_weight, self.cfg.contact_cost_range),
        }

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {
            "forward": self.cfg.forward_reward_weight * info["x_velocity"],
            "ctrl": -info["ctrl_cost"],
            "contact": -info["contact_cost"],
            "survive": info["healthy"] * self.cfg.healthy_reward,
        }
