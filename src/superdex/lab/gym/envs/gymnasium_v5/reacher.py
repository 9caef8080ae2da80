"""Reacher-v5: an arm of two links in the plane; bring its fingertip to a target.

| | |
|---|---|
| action `ctrl` | (2,) torques on the joints, in [-1, 1] |
| observation `cos`, `sin` | (2,) each, of the joint angles |
| observation `target` | (2,) x and y of the target [m] |
| observation `qvel` | (2,) joint velocities [rad/s] |
| observation `to_target` | (2,) fingertip less target, x and y [m], one substep behind |
| reward | `dist`: -weight times their distance; `ctrl`: -weight times squared action |
| terminated | never |
| truncated | "Steps per episode reached", after 50 steps of 0.02 s |
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

__all__ = ["ReacherV5Cfg", "ReacherV5Env"]

REACH = 0.2
"""Radius within which the target lies [m]."""


@dataclass(frozen=True, kw_only=True)
class ReacherV5Cfg(FixedNoiseCfg):
    """Configuration of `ReacherV5Env`: the keywords of Gymnasium's Reacher-v5."""

    steps_per_episode: int = 50
    xml_file: str = "reacher.xml"
    frame_skip: int = 2
    reward_dist_weight: float = 1.0
    """Cost per metre between fingertip and target."""
    reward_control_weight: float = 1.0
    """Cost per squared unit of action."""


class ReacherV5Env(GymnasiumEnv):
    """See the module's docstring."""

    Cfg = ReacherV5Cfg
    cfg: ReacherV5Cfg
    view = View(distance=0.9, elevation=-70, lookat=(0, 0, 0))
    derived_fields = ("xpos",)

    def _observation_parts(self) -> dict[str, Box]:
        return {name: unbounded(2) for name in ("cos", "sin", "target", "qvel", "to_target")}

    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        sim.qpos += sim.uniform(-0.1, 0.1, sim.model.nq)
        sim.qpos[:, -2:] = sim.draw(_target)
        sim.qvel += sim.uniform(-0.005, 0.005, sim.model.nv)
        sim.qvel[:, -2:] = 0

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        angles = sim.qpos[:, :2].copy()  # a sine may depend on how its arguments lie in memory
        return {
            "cos": np.cos(angles),
            "sin": np.sin(angles),
            "target": sim.qpos[:, 2:],
            "qvel": sim.qvel[:, :2],
            "to_target": self._to_target(sim)[:, :2],
        }, {}

    def _make_step_info(self, sim: Sim) -> StructuredArrays:
        return {"distance": norm(self._to_target(sim))}

    def _to_target(self, sim: Sim) -> NDArray[np.float64]:
        return sim.body("fingertip").xpos - sim.body("target").xpos

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {
            "dist": -info["distance"] * self.cfg.reward_dist_weight,
            "ctrl": -squared_cost(self.cfg.reward_control_weight, action["ctrl"]),
        }


def _target(generator: np.random.Generator) -> NDArray[np.float64]:
    """(2,) a point of a disc, by rejection from the square around it."""
    point = generator.uniform(-REACH, REACH, 2)
    while not np.linalg.norm(point) < REACH:
        point = generator.uniform(-REACH, REACH, 2)
    return point
