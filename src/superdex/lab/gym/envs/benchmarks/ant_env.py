"""Ant: a four-legged robot; run along x without falling or flying.

| | |
|---|---|
| action `control` | (8,) in [-1, 1], times 150 N m on hip and ankle of legs fl, bl, br, fr (front/back, left/right) |
| observation `contact_forces` | (54,) contact wrench (torque, force) on each of 9 bodies, clipped to [-1, 1] |
| observation `pose` | (13,) height [m], orientation quaternion, joint angles [rad] |
| observation `vel` | (14,) linear [m/s] and angular velocity of the torso, joint velocities [rad/s] |
| reward | `forward`: x velocity; `ctrl`: -0.5 squared action; `contact`: -5e-4 squared clipped wrenches; `survive`: 1 |
| terminated | "Unhealthy": torso height outside [0.2, 1.0] m |
| truncated | "Steps per episode reached", after 1000 steps of 0.05 s |

With `use_rotation_vector` the orientation has 3 entries; with x and y not left
out, they come first; without `include_contact_in_observation` there are neither
`contact_forces` nor their cost. Contact wrenches are those of the last physics step (`cfrc_ext`), one substep
behind pose and velocity. `survive` is paid in every step but the one that ends
the episode as unhealthy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from superdex.lab.gym.envs.benchmarks.base import BenchmarkCfg, BenchmarkEnv
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays, Terminate
from superdex.physics import load_model

__all__ = ["AntCfg", "AntEnv"]

MODEL_PATH = Path(__file__).with_name("ant.xml")

LOW_FRICTION = 0.4
HIGH_FRICTION = 2.0
"""Sliding friction of the floor with `use_low_friction` and `use_high_friction`; 1 otherwise."""


@dataclass(frozen=True, kw_only=True)
class AntCfg(BenchmarkCfg):
    """Configuration of `AntEnv`."""

    control_frequency: float = 20
    simulation_frequency: float = 100
    steps_per_episode: int = 1000
    reset_noise_scale: float = 0.1
    use_damping: bool = True
    """Whether the joints are damped."""
    use_gravity: bool = True
    """Whether gravity acts."""
    use_low_friction: bool = False
    """Whether the floor is slippery."""
    use_high_friction: bool = False
    """Whether the floor is sticky; not together with `use_low_friction`."""
    forward_reward_weight: float = 1.0
    """Reward per m/s of forward velocity."""
    ctrl_cost_weight: float = 0.5
    """Cost per squared unit of action."""
    contact_cost_weight: float = 5e-4
    """Cost per squared unit of clipped contact wrench."""
    healthy_reward: float = 1.0
    """Reward of every step in which the ant is healthy."""
    healthy_z_range: tuple[float, float] = (0.2, 1.0)
    """Height of the torso [m] within which the ant is healthy."""
    terminate_when_unhealthy: bool = True
    """Whether an unhealthy ant's episode ends."""
    include_contact_in_observation: bool = True
    """Whether contact wrenches are observed and cost."""
    exclude_current_positions_from_observation: bool = True
    """Whether the x and y positions are left out of the observation."""
    use_rotation_vector: bool = False
    """Whether the orientation is observed as a rotation vector (axis times angle [rad]), not a quaternion."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.use_low_friction and self.use_high_friction:
            raise ValueError("use_low_friction and use_high_friction exclude each other: set one of them.")
        if not self.healthy_z_range[0] < self.healthy_z_range[1]:
            raise ValueError(f"healthy_z_range must be (low, high) with low < high, got {self.healthy_z_range}.")


class AntEnv(BenchmarkEnv):
    """See the module's docstring."""

    Cfg = AntCfg
    cfg: AntCfg
    uid_fields = ("use_damping", "use_gravity", "use_low_friction", "use_high_friction")

    def __init__(self, cfg: AntCfg | dict[str, Any] | None = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        if self.cfg.include_contact_in_observation:
            self.derived_fields = ("cfrc_ext",)

    def _build_model(self) -> mujoco.MjModel:
        return load_model(MODEL_PATH, _edit, *(getattr(self.cfg, field) for field in self.uid_fields))

    def _action_parts(self) -> dict[str, Box]:
        return {"control": Box(-1, 1, (8,))}

    def _observation_parts(self) -> dict[str, Box]:
        orientation = 3 if self.cfg.use_rotation_vector else 4
        position = 1 if self.cfg.exclude_current_positions_from_observation else 3
        parts: dict[str, Box] = {
            "pose": Box(-np.inf, np.inf, (position + orientation + 8,)),
            "vel": Box(-np.inf, np.inf, (14,)),
        }
        if self.cfg.include_contact_in_observation:
            parts["contact_forces"] = Box(-1, 1, (54,))
        return parts

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl = action["control"]

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        position = sim.qpos[:, 2 if self.cfg.exclude_current_positions_from_observation else 0 : 3]
        orientation, joints = sim.qpos[:, 3:7], sim.qpos[:, 7:]
        if self.cfg.use_rotation_vector:
            orientation = rotation_vector(orientation)
        observation = {"pose": np.concatenate([position, orientation, joints], axis=1), "vel": sim.qvel}
        if self.cfg.include_contact_in_observation:
            wrenches = sim.cfrc_ext[:, 1:].reshape(sim.num, 54)  # the world's is left out
            observation["contact_forces"] = np.clip(wrenches, -1, 1)
        return observation, {"healthy": self._is_healthy(sim)}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        cfg = self.cfg
        terms = {
            "forward": cfg.forward_reward_weight * observation["vel"][:, 0],
            "ctrl": -cfg.ctrl_cost_weight * np.square(action["control"]).sum(axis=-1),
            "survive": cfg.healthy_reward * info["healthy"],
        }
        if cfg.include_contact_in_observation:
            terms["contact"] = -cfg.contact_cost_weight * np.square(observation["contact_forces"]).sum(axis=-1)
        return terms

    def _check_stop_criteria(
        self, sim: Sim, observation: StructuredArrays, info: StructuredArrays
    ) -> Iterable[Terminate]:
        return [Terminate(~info["healthy"], "Unhealthy")] if self.cfg.terminate_when_unhealthy else []

    def _is_healthy(self, sim: Sim) -> NDArray[np.bool_]:
        low, high = self.cfg.healthy_z_range
        return (low <= sim.qpos[:, 2]) & (sim.qpos[:, 2] <= high)


def rotation_vector(quaternion: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit quaternions (N, 4), scalar first, as rotation vectors (N, 3) [rad] of at most pi.

    The angle is 2 atan2(|v|, w) for the quaternion (w, v) with w >= 0; for small
    |v| the factor angle / |v| tends to 2 / w.
    """
    scalar = quaternion[:, :1]
    vector = np.where(scalar < 0, -quaternion[:, 1:], quaternion[:, 1:])
    scalar = np.abs(scalar)
    norm = np.sqrt(np.square(vector).sum(axis=-1, keepdims=True))
    small = norm < 1e-8
    factor = np.where(small, 2.0, 2 * np.arctan2(norm, scalar) / np.where(small, 1.0, norm))
    return factor * vector


def _edit(
    spec: mujoco.MjSpec, use_damping: bool, use_gravity: bool, use_low_friction: bool, use_high_friction: bool
) -> None:
    if not use_damping:
        for joint in spec.joints:
            joint.damping[:] = 0
    if not use_gravity:
        spec.option.gravity = (0, 0, 0)
    if use_low_friction or use_high_friction:
        for pair in spec.pairs:  # a listed pair does not look at its geoms' friction
            pair.friction[:2] = LOW_FRICTION if use_low_friction else HIGH_FRICTION
