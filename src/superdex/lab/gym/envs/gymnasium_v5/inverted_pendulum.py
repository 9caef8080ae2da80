"""InvertedPendulum-v5: keep a pole upright by pushing the cart that it stands on.

| | |
|---|---|
| action `ctrl` | (1,) force on the cart, in [-3, 3] |
| observation `qpos` | (2,) position of the cart [m], angle of the pole [rad] |
| observation `qvel` | (2,) their velocities [m/s, rad/s] |
| reward | `survive`: 1 while the pole stands |
| terminated | "Unhealthy": the pole's angle exceeds 0.2 rad in size |
| truncated | "Steps per episode reached", after 1000 steps of 0.04 s |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box

from superdex.lab.gym.envs.gymnasium_v5.base import GymnasiumCfg, GymnasiumEnv, unbounded
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays, Terminate
from superdex.physics.rendering import View

__all__ = ["InvertedPendulumV5Cfg", "InvertedPendulumV5Env"]

MAX_ANGLE = 0.2
"""Largest angle of a pole that stands [rad]."""


@dataclass(frozen=True, kw_only=True)
class InvertedPendulumV5Cfg(GymnasiumCfg):
    """Configuration of `InvertedPendulumV5Env`: the keywords of Gymnasium's InvertedPendulum-v5."""

    xml_file: str = "inverted_pendulum.xml"
    frame_skip: int = 2
    reset_noise_scale: float = 0.01


class InvertedPendulumV5Env(GymnasiumEnv):
    """See the module's docstring."""

    Cfg = InvertedPendulumV5Cfg
    cfg: InvertedPendulumV5Cfg
    view = View(distance=2.4, elevation=-10, lookat=(0, 0, 0.25))

    def _observation_parts(self) -> dict[str, Box]:
        return {"qpos": unbounded(2), "qvel": unbounded(2)}

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        return {"qpos": sim.qpos, "qvel": sim.qvel}, {}

    def _make_step_info(self, sim: Sim) -> StructuredArrays:
        return {"healthy": np.isfinite(sim.qvel).all(axis=-1) & (np.abs(sim.qpos[:, 1]) <= MAX_ANGLE)}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {"survive": info["healthy"]}

    def _check_stop_criteria(
        self, sim: Sim, observation: StructuredArrays, info: StructuredArrays
    ) -> Iterable[Terminate]:
        return [Terminate(~info["healthy"], "Unhealthy")]
