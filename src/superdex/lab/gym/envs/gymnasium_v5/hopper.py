"""Hopper-v5: a planar one-legged robot; hop along x without falling.

| | |
|---|---|
| action `ctrl` | (3,) torques on thigh, leg and foot, in [-1, 1] |
| observation `qpos` | (5,) height [m], pitch and joint angles [rad]; (6,) with x first if it is not left out |
| observation `qvel` | (6,) x and z velocity [m/s], pitch and joint velocities [rad/s], clipped to [-10, 10] |
| reward | `forward`: weight times mean x velocity; `survive`: if healthy; `ctrl`: -weight times squared action |
| terminated | "Unhealthy": height, pitch or any later entry of the state out of its range |
| truncated | "Steps per episode reached", after 1000 steps of 0.008 s |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from superdex.lab.gym.envs.gymnasium_v5.base import Range, within
from superdex.lab.gym.envs.gymnasium_v5.planar import PlanarWalkerCfg, PlanarWalkerEnv
from superdex.lab.gym.envs.sim import Sim
from superdex.physics.rendering import View

__all__ = ["HopperV5Cfg", "HopperV5Env"]


@dataclass(frozen=True, kw_only=True)
class HopperV5Cfg(PlanarWalkerCfg):
    """Configuration of `HopperV5Env`: the keywords of Gymnasium's Hopper-v5."""

    xml_file: str = "hopper.xml"
    frame_skip: int = 4
    healthy_state_range: Range = (-100.0, 100.0)
    """Range of all positions but x and z, and all velocities, within which the hopper is healthy."""
    healthy_z_range: Range = (0.7, float("inf"))
    healthy_angle_range: Range = (-0.2, 0.2)


class HopperV5Env(PlanarWalkerEnv):
    """See the module's docstring."""

    Cfg = HopperV5Cfg
    cfg: HopperV5Cfg
    view = View(distance=3.2, elevation=-12, follows=1)

    def _is_healthy(self, sim: Sim) -> NDArray[np.bool_]:
        bounds = self.cfg.healthy_state_range
        ordinary = within(sim.qpos[:, 2:], bounds).all(axis=-1) & within(sim.qvel, bounds).all(axis=-1)
        return ordinary & super()._is_healthy(sim)
