"""Swimmer-v5: three links in a viscous fluid, in the plane; swim along x as fast as possible.

| | |
|---|---|
| action `ctrl` | (2,) torques on the two joints, in [-1, 1] |
| observation `qpos` | (3,) angle of the front link and of the joints [rad]; (5,) with x, y first if not left out |
| observation `qvel` | (5,) x and y velocity [m/s], angular velocities [rad/s] |
| reward | `forward`: weight times mean x velocity over the step; `ctrl`: -weight times squared action |
| terminated | never |
| truncated | "Steps per episode reached", after 1000 steps of 0.04 s |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from superdex.lab.gym.envs.gymnasium_v5.base import squared_cost, unbounded
from superdex.lab.gym.envs.gymnasium_v5.spatial import SpatialRunnerCfg, SpatialRunnerEnv
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays
from superdex.physics.rendering import View

__all__ = ["SwimmerV5Cfg", "SwimmerV5Env"]


@dataclass(frozen=True, kw_only=True)
class SwimmerV5Cfg(SpatialRunnerCfg):
    """Configuration of `SwimmerV5Env`: the keywords of Gymnasium's Swimmer-v5."""

    xml_file: str = "swimmer.xml"
    frame_skip: int = 4
    reset_noise_scale: float = 0.1
    ctrl_cost_weight: float = 1e-4


class SwimmerV5Env(SpatialRunnerEnv):
    """See the module's docstring."""

    Cfg = SwimmerV5Cfg
    cfg: SwimmerV5Cfg
    view = View(distance=4, elevation=-40, follows=1)

    def _observation_parts(self) -> dict[str, Box]:
        return {"qpos": unbounded(self._pose_size), "qvel": unbounded(self.scene.model.nv)}

    def _place(self, sim: Sim) -> NDArray[np.float64]:
        return sim.qpos[:, :2]

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        return {"qpos": self._pose(sim), "qvel": sim.qvel}, self._whereabouts(sim)

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {
            "forward": self.cfg.forward_reward_weight * info["x_velocity"],
            "ctrl": -squared_cost(self.cfg.ctrl_cost_weight, action["ctrl"]),
        }
