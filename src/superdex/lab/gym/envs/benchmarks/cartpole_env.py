"""CartPole: keep a pole upright by pushing the cart that it stands on.

| | |
|---|---|
| action `control` | (1,) in [-3, 3], times 100 N on the cart along x, or 100 N m on the hinge with `actuate_on_pole` |
| observation `angular_vel` | (1,) of the pole about y [rad/s] |
| observation `linear_vel` | (1,) of the cart along x [m/s] |
| observation `position` | (1,) of the cart along x [m] |
| observation `vertical_ang` | (1,) of the pole from the vertical [rad] |
| reward | `upright_reward`: 1 while the angle is at most 0.2 rad in size |
| terminated | "Pole angle exceeded threshold" |
| truncated | "Steps per episode reached", after 1000 steps of 0.04 s |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from gymnasium.spaces import Box

from superdex.lab.gym.envs.benchmarks.base import BenchmarkCfg, BenchmarkEnv
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays, Terminate
from superdex.physics import load_model

__all__ = ["CartPoleCfg", "CartPoleEnv"]

MODEL_PATH = Path(__file__).with_name("cartpole.xml")

MAX_ANGLE = 0.2
"""Largest angle of the pole from the vertical [rad]."""

HELD_POLE_STIFFNESS = 1200.0
HELD_POLE_DAMPING = 300.0
"""Spring [N m/rad] and damper [N m s/rad] that hold the pole upright when it is not free."""


@dataclass(frozen=True, kw_only=True)
class CartPoleCfg(BenchmarkCfg):
    """Configuration of `CartPoleEnv`."""

    control_frequency: float = 25
    simulation_frequency: float = 50
    steps_per_episode: int = 1000
    reset_noise_scale: float = 0.02
    use_damping: bool = True
    """Whether the cart's slide and the pole's hinge are damped."""
    use_gravity: bool = True
    """Whether gravity acts."""
    free_pole: bool = True
    """Whether the pole turns freely; otherwise a spring and a damper hold it upright."""
    actuate_on_pole: bool = False
    """Whether the action is a torque on the pole's hinge, not a force on the cart."""


class CartPoleEnv(BenchmarkEnv):
    """See the module's docstring."""

    Cfg = CartPoleCfg
    cfg: CartPoleCfg
    uid_fields = ("use_damping", "use_gravity", "free_pole")

    def _build_model(self) -> mujoco.MjModel:
        return load_model(MODEL_PATH, _edit, self.cfg.use_damping, self.cfg.use_gravity, self.cfg.free_pole)

    def _action_parts(self) -> dict[str, Box]:
        return {"control": Box(-3, 3, (1,))}

    def _observation_parts(self) -> dict[str, Box]:
        return {key: Box(-np.inf, np.inf, (1,)) for key in ("angular_vel", "linear_vel", "position", "vertical_ang")}

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl[:, int(self.cfg.actuate_on_pole)] = action["control"][:, 0]  # actuators: cart_force, pole_torque

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        position, angle = sim.qpos[:, :1], sim.qpos[:, 1:]
        linear, angular = sim.qvel[:, :1], sim.qvel[:, 1:]
        return {"angular_vel": angular, "linear_vel": linear, "position": position, "vertical_ang": angle}, {}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {"upright_reward": (np.abs(observation["vertical_ang"][:, 0]) <= MAX_ANGLE).astype(np.float64)}

    def _check_stop_criteria(
        self, sim: Sim, observation: StructuredArrays, info: StructuredArrays
    ) -> Iterable[Terminate]:
        return [Terminate(np.abs(observation["vertical_ang"][:, 0]) > MAX_ANGLE, "Pole angle exceeded threshold")]


def _edit(spec: mujoco.MjSpec, use_damping: bool, use_gravity: bool, free_pole: bool) -> None:
    slider, hinge = spec.joint("slider"), spec.joint("hinge")  # damping and stiffness are polynomials: [0] is linear
    if not use_damping:
        slider.damping[0] = hinge.damping[0] = 0
    if not use_gravity:
        spec.option.gravity = (0, 0, 0)
    if not free_pole:
        hinge.stiffness[0] = HELD_POLE_STIFFNESS
        hinge.damping[0] = HELD_POLE_DAMPING
