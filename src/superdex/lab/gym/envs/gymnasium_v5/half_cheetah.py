"""HalfCheetah-v5: a planar two-legged runner; run along x as fast as possible.

| | |
|---|---|
| action `ctrl` | (6,) torques on hind, then front, thigh, shin and foot, in [-1, 1] |
| observation `qpos` | (8,) height [m], pitch and joint angles [rad]; (9,) with x first if it is not left out |
| observation `qvel` | (9,) x and z velocity [m/s], pitch and joint velocities [rad/s] |
| reward | `forward`: weight times mean x velocity over the step; `ctrl`: -weight times squared action |
| terminated | never |
| truncated | "Steps per episode reached", after 1000 steps of 0.05 s |
"""

from __future__ import annotations

from dataclasses import dataclass

from superdex.lab.gym.envs.gymnasium_v5.planar import PlanarRunnerCfg, PlanarRunnerEnv
from superdex.physics.rendering import View

__all__ = ["HalfCheetahV5Cfg", "HalfCheetahV5Env"]


@dataclass(frozen=True, kw_only=True)
class HalfCheetahV5Cfg(PlanarRunnerCfg):
    """Configuration of `HalfCheetahV5Env`: the keywords of Gymnasium's HalfCheetah-v5."""

    xml_file: str = "half_cheetah.xml"
    frame_skip: int = 5
    reset_noise_scale: float = 0.1
    ctrl_cost_weight: float = 0.1


class HalfCheetahV5Env(PlanarRunnerEnv):
    """See the module's docstring."""

    Cfg = HalfCheetahV5Cfg
    cfg: HalfCheetahV5Cfg
    view = View(distance=3.2, elevation=-15, follows=1)
    normal_velocities = True
