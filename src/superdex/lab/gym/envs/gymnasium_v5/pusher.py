"""Pusher-v5: an arm of seven joints; push a cylinder to a goal.

| | |
|---|---|
| action `ctrl` | (7,) torques on shoulder (pan, lift), upper arm, elbow, forearm, wrist (flex, roll), in [-2, 2] |
| observation `qpos`, `qvel` | (7,) each, joint angles [rad] and velocities [rad/s] |
| observation `tips_arm`, `object`, `goal` | (3,) positions of fingertips, cylinder, goal [m], one substep behind |
| reward | `near`, `dist`: -weight times distance of the cylinder from the fingertips, from the goal; `ctrl` |
| terminated | never |
| truncated | "Steps per episode reached", after 100 steps of 0.05 s |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from superdex.lab.gym.envs.gymnasium_v5.base import FixedNoiseCfg, GymnasiumEnv, norm, squared_cost, unbounded
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays
from superdex.physics.rendering import View

__all__ = ["PusherV5Cfg", "PusherV5Env"]

MIN_DISTANCE = 0.17
"""Between the cylinder and the goal at the start [m]."""
BODIES = ("tips_arm", "object", "goal")


@dataclass(frozen=True, kw_only=True)
class PusherV5Cfg(FixedNoiseCfg):
    """Configuration of `PusherV5Env`: the keywords of Gymnasium's Pusher-v5."""

    steps_per_episode: int = 100
    xml_file: str = "pusher_v5.xml"
    frame_skip: int = 5
    reward_near_weight: float = 0.5
    """Cost per metre between fingertips and cylinder."""
    reward_dist_weight: float = 1.0
    """Cost per metre between cylinder and goal."""
    reward_control_weight: float = 0.1
    """Cost per squared unit of action."""


class PusherV5Env(GymnasiumEnv):
    """See the module's docstring."""

    Cfg = PusherV5Cfg
    cfg: PusherV5Cfg
    view = View(distance=2.6, elevation=-45, lookat=(0.3, -0.3, -0.2))
    derived_fields = ("xpos",)

    def _observation_parts(self) -> dict[str, Box]:
        return {"qpos": unbounded(7), "qvel": unbounded(7), **{name: unbounded(3) for name in BODIES}}

    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        sim.qpos[:, -4:-2] = sim.draw(_cylinder)
        sim.qpos[:, -2:] = 0  # the goal
        sim.qvel += sim.uniform(-0.005, 0.005, sim.model.nv)
        sim.qvel[:, -4:] = 0

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        bodies = {name: sim.body(name).xpos for name in BODIES}
        return {"qpos": sim.qpos[:, :7], "qvel": sim.qvel[:, :7], **bodies}, {}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        tips, cylinder, goal = (observation[name] for name in BODIES)
        return {
            "dist": -norm(cylinder - goal) * self.cfg.reward_dist_weight,
            "ctrl": -squared_cost(self.cfg.reward_control_weight, action["ctrl"]),
            "near": -norm(cylinder - tips) * self.cfg.reward_near_weight,
        }


def _cylinder(generator: np.random.Generator) -> NDArray[np.float64]:
    """(2,) a point of a rectangle, by rejection of those near the goal."""
    while True:
        point = np.array([generator.uniform(-0.3, 0), generator.uniform(-0.2, 0.2)])
        if np.linalg.norm(point) > MIN_DISTANCE:
            return point
