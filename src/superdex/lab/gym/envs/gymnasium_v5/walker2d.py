"""Walker2d-v5: a planar two-legged robot; walk along x without falling.

| | |
|---|---|
| action `ctrl` | (6,) torques on right, then left, thigh, leg and foot, in [-1, 1] |
| observation `qpos` | (8,) height [m], pitch and joint angles [rad]; (9,) with x first if it is not left out |
| observation `qvel` | (9,) x and z velocity [m/s], pitch and joint velocities [rad/s], clipped to [-10, 10] |
| reward | `forward`: weight times mean x velocity; `survive`: if healthy; `ctrl`: -weight times squared action |
| terminated | "Unhealthy": height or pitch out of its range |
| truncated | "Steps per episode reached", after 1000 steps of 0.008 s |
"""

from __future__ import annotations

from dataclasses import dataclass

from superdex.lab.gym.envs.gymnasium_v5.base import Range
from superdex.lab.gym.envs.gymnasium_v5.planar import PlanarWalkerCfg, PlanarWalkerEnv
from superdex.physics.rendering import View

__all__ = ["Walker2dV5Cfg", "Walker2dV5Env"]


@dataclass(frozen=True, kw_only=True)
class Walker2dV5Cfg(PlanarWalkerCfg):
    """Configuration of `Walker2dV5Env`: the keywords of Gymnasium's Walker2d-v5."""

    xml_file: str = "walker2d_v5.xml"
    frame_skip: int = 4
    healthy_z_range: Range = (0.8, 2.0)
    healthy_angle_range: Range = (-1.0, 1.0)


class Walker2dV5Env(PlanarWalkerEnv):
    """See the module's docstring."""

    Cfg = Walker2dV5Cfg
    cfg: Walker2dV5Cfg
    view = View(distance=3.6, elevation=-12, follows=1)
