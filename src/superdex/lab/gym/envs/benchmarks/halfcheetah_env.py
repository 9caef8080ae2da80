"""HalfCheetah: a planar two-legged runner; run along x as fast as possible.

| | |
|---|---|
| action `control` | (6,) in [-1, 1], times (120, 90, 60, 120, 60, 30) N m on hind, then front, thigh, shin, foot |
| observation `pose` | (8,) height [m], pitch and six joint angles [rad]; (9,) with x first if it is not left out |
| observation `vel` | (9,) x and z velocity [m/s], pitch and joint velocities [rad/s] |
| reward | `forward`: `forward_reward_weight` x velocity; `ctrl`: -`ctrl_cost_weight` times the squared action |
| terminated | never |
| truncated | "Steps per episode reached", after 1000 steps of 0.05 s |
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from gymnasium.spaces import Box

from superdex.lab.gym.envs.benchmarks.base import BenchmarkCfg, BenchmarkEnv
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays
from superdex.physics import load_model

__all__ = ["HalfCheetahCfg", "HalfCheetahEnv"]

MODEL_PATH = Path(__file__).with_name("halfcheetah.xml")


@dataclass(frozen=True, kw_only=True)
class HalfCheetahCfg(BenchmarkCfg):
    """Configuration of `HalfCheetahEnv`."""

    control_frequency: float = 20
    simulation_frequency: float = 100
    steps_per_episode: int = 1000
    reset_noise_scale: float = 0.1
    use_gravity: bool = True
    """Whether gravity acts."""
    use_rest_springs: bool = True
    """Whether springs pull the joints towards their rest pose."""
    forward_reward_weight: float = 1.0
    """Reward per m/s of forward velocity."""
    ctrl_cost_weight: float = 0.1
    """Cost per squared unit of action."""
    exclude_current_position_from_observation: bool = True
    """Whether the x position is left out of the observation."""


class HalfCheetahEnv(BenchmarkEnv):
    """See the module's docstring."""

    Cfg = HalfCheetahCfg
    cfg: HalfCheetahCfg
    uid_fields = ("use_gravity", "use_rest_springs")

    def _build_model(self) -> mujoco.MjModel:
        return load_model(MODEL_PATH, _edit, self.cfg.use_gravity, self.cfg.use_rest_springs)

    def _action_parts(self) -> dict[str, Box]:
        return {"control": Box(-1, 1, (6,))}

    def _observation_parts(self) -> dict[str, Box]:
        pose = 8 if self.cfg.exclude_current_position_from_observation else 9
        return {"pose": Box(-np.inf, np.inf, (pose,)), "vel": Box(-np.inf, np.inf, (9,))}

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl = action["control"]

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        first = 1 if self.cfg.exclude_current_position_from_observation else 0
        return {"pose": sim.qpos[:, first:], "vel": sim.qvel}, {}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {
            "forward": self.cfg.forward_reward_weight * observation["vel"][:, 0],
            "ctrl": -self.cfg.ctrl_cost_weight * np.square(action["control"]).sum(axis=-1),
        }


def _edit(spec: mujoco.MjSpec, use_gravity: bool, use_rest_springs: bool) -> None:
    if not use_gravity:
        spec.option.gravity = (0, 0, 0)
    if not use_rest_springs:
        for joint in spec.joints:
            joint.stiffness[:] = 0
