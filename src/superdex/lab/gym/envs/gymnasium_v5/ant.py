"""Ant-v5: a four-legged robot; run along x without falling or flying.

| | |
|---|---|
| action `ctrl` | (8,) torques on hip and ankle of each leg, in [-1, 1] |
| observation `qpos` | (13,) height [m], orientation quaternion, joint angles [rad]; (15,) with x, y first |
| observation `qvel` | (14,) linear [m/s] and angular velocity of the torso, joint velocities [rad/s] |
| observation `cfrc_ext` | (78,) contact wrench on each of 13 bodies, clipped to `contact_force_range`, if included |
| reward | `forward`: weight times mean x velocity of `main_body`; `survive`: if healthy; |
| | `ctrl`, `contact`: -weight times squared action, squared clipped wrenches |
| terminated | "Unhealthy": torso height out of its range |
| truncated | "Steps per episode reached", after 1000 steps of 0.05 s |

Wrenches and the position of `main_body` are one substep behind the state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from superdex.lab.gym.envs.gymnasium_v5.base import Range, squared_cost, unbounded
from superdex.lab.gym.envs.gymnasium_v5.spatial import SpatialWalkerCfg, SpatialWalkerEnv
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays
from superdex.physics.rendering import View

__all__ = ["AntV5Cfg", "AntV5Env"]


@dataclass(frozen=True, kw_only=True)
class AntV5Cfg(SpatialWalkerCfg):
    """Configuration of `AntV5Env`: the keywords of Gymnasium's Ant-v5."""

    xml_file: str = "ant.xml"
    frame_skip: int = 5
    reset_noise_scale: float = 0.1
    ctrl_cost_weight: float = 0.5
    contact_cost_weight: float = 5e-4
    healthy_reward: float = 1.0
    healthy_z_range: Range = (0.2, 1.0)
    """Height of the torso [m] within which the ant is healthy, bounds included."""
    main_body: int | str = 1
    """The body, by index or name, whose velocity is rewarded."""
    contact_force_range: Range = (-1.0, 1.0)
    """Range that contact wrenches are clipped to."""
    include_cfrc_ext_in_observation: bool = True
    """Whether contact wrenches are observed."""


class AntV5Env(SpatialWalkerEnv):
    """See the module's docstring."""

    Cfg = AntV5Cfg
    cfg: AntV5Cfg
    view = View(distance=4.5, elevation=-20, follows=1)
    derived_fields = ("cfrc_ext", "xpos")
    normal_velocities = True

    def _observation_parts(self) -> dict[str, Box]:
        model = self.scene.model
        parts = {"qpos": unbounded(self._pose_size), "qvel": unbounded(model.nv)}
        if self.cfg.include_cfrc_ext_in_observation:
            parts["cfrc_ext"] = unbounded(6 * (model.nbody - 1))  # the world's is left out
        return parts

    def _place(self, sim: Sim) -> NDArray[np.float64]:
        return sim.xpos[:, sim.model.body(self.cfg.main_body).id, :2]

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        observation = {"qpos": self._pose(sim), "qvel": sim.qvel}
        if self.cfg.include_cfrc_ext_in_observation:
            observation["cfrc_ext"] = self._wrenches(sim)[:, 6:]
        return observation, self._whereabouts(sim)

    def _wrenches(self, sim: Sim) -> NDArray[np.float64]:
        """(N, 6 nbody) clipped contact wrenches."""
        return np.clip(sim.cfrc_ext, *self.cfg.contact_force_range).reshape(sim.num, -1)

    def _is_healthy(self, sim: Sim) -> NDArray[np.bool_]:
        low, high = self.cfg.healthy_z_range
        finite = np.isfinite(sim.qpos).all(axis=-1) & np.isfinite(sim.qvel).all(axis=-1)
        return finite & (low <= sim.qpos[:, 2]) & (sim.qpos[:, 2] <= high)

    def _make_step_info(self, sim: Sim) -> StructuredArrays:
        contact_cost = squared_cost(self.cfg.contact_cost_weight, self._wrenches(sim))
        return {**super()._make_step_info(sim), "contact_cost": contact_cost}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {
            "forward": info["x_velocity"] * self.cfg.forward_reward_weight,
            "ctrl": -squared_cost(self.cfg.ctrl_cost_weight, action["ctrl"]),
            "contact": -info["contact_cost"],
            "survive": info["healthy"] * self.cfg.healthy_reward,
        }
