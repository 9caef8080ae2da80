"""HumanoidStandup-v5: a two-legged robot with arms that lies on the ground; get up.

| | |
|---|---|
| action `ctrl` | (17,) torques on abdomen, hips, knees, shoulders and elbows, in [-0.4, 0.4] |
| observation | see `humanoid_body` |
| reward | `linup`: torso height divided by the time step; `quadctrl`: -weight times squared controls; |
| | `impact`: -weight times squared contact wrenches (clipped to a range); `alive`: 1 |
| terminated | never |
| truncated | "Steps per episode reached", after 1000 steps of 0.015 s |

Contact wrenches are one substep behind the state. `uph_cost_weight` has no effect,
as in the original.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from superdex.lab.gym.envs.gymnasium_v5.base import Range
from superdex.lab.gym.envs.gymnasium_v5.humanoid_body import HumanoidBodyCfg, HumanoidBodyEnv
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays
from superdex.physics.rendering import View

__all__ = ["HumanoidStandupV5Cfg", "HumanoidStandupV5Env"]


@dataclass(frozen=True, kw_only=True)
class HumanoidStandupV5Cfg(HumanoidBodyCfg):
    """Configuration of `HumanoidStandupV5Env`: the keywords of Gymnasium's HumanoidStandup-v5."""

    xml_file: str = "humanoidstandup.xml"
    uph_cost_weight: float = 1.0
    """Not used, as in the original."""
    impact_cost_weight: float = 0.5e-6
    """Cost per squared unit of contact wrench."""
    impact_cost_range: Range = (-np.inf, 10.0)
    """Range that the impact cost is clipped to."""


class HumanoidStandupV5Env(HumanoidBodyEnv):
    """See the module's docstring."""

    Cfg = HumanoidStandupV5Cfg
    cfg: HumanoidStandupV5Cfg
    view = View(distance=4, elevation=-20, follows=1)

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        info = {
            "x_position": sim.qpos[:, 0],
            "y_position": sim.qpos[:, 1],
            "z_distance_from_origin": sim.qpos[:, 2] - sim.model.qpos0[2],
            **self._tendons(sim),
        }
        return self._body_observation(sim), info

    def _make_step_info(self, sim: Sim) -> StructuredArrays:
        return {
            "height": sim.qpos[:, 2],
            **self._costs(sim, self.cfg.impact_cost_weight, self.cfg.impact_cost_range),
        }

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {
            "linup": info["height"] / self.scene.model.opt.timestep,
            "quadctrl": -info["ctrl_cost"],
            "impact": -info["contact_cost"],
            "alive": np.ones(len(info["height"])),
        }
