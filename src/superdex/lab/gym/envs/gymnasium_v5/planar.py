"""Runners in the xz plane, whose first coordinate is x: what HalfCheetah, Hopper and Walker2d have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from superdex.lab.gym.envs.gymnasium_v5.base import GymnasiumCfg, GymnasiumEnv, Range, squared_cost, unbounded, within
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays, Terminate

__all__ = ["PlanarRunnerCfg", "PlanarRunnerEnv", "PlanarWalkerCfg", "PlanarWalkerEnv"]


@dataclass(frozen=True, kw_only=True)
class PlanarRunnerCfg(GymnasiumCfg):
    """Configuration of `PlanarRunnerEnv`."""

    forward_reward_weight: float = 1.0
    """Reward per m/s of forward velocity."""
    ctrl_cost_weight: float
    """Cost per squared unit of action."""
    exclude_current_positions_from_observation: bool = True
    """Whether the x position is left out of the observation."""


class PlanarRunnerEnv(GymnasiumEnv):
    """Observes positions and velocities, and is rewarded for the mean velocity over a step."""

    task_state: ClassVar = {"x_before": ()}

    def _observation_parts(self) -> dict[str, Box]:
        model, skipped = self.scene.model, int(self.cfg.exclude_current_positions_from_observation)
        return {"qpos": unbounded(model.nq - skipped), "qvel": unbounded(model.nv)}

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.task["x_before"] = sim.qpos[:, 0]
        sim.ctrl = action["ctrl"]

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        skipped = int(self.cfg.exclude_current_positions_from_observation)
        return {"qpos": sim.qpos[:, skipped:], "qvel": sim.qvel}, {"x_position": sim.qpos[:, 0]}

    def _make_step_info(self, sim: Sim) -> StructuredArrays:
        return {"x_velocity": (sim.qpos[:, 0] - sim.task["x_before"]) / self.dt}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {
            "forward": self.cfg.forward_reward_weight * info["x_velocity"],
            "ctrl": -squared_cost(self.cfg.ctrl_cost_weight, action["ctrl"]),
        }


@dataclass(frozen=True, kw_only=True)
class PlanarWalkerCfg(PlanarRunnerCfg):
    """Configuration of `PlanarWalkerEnv`."""

    reset_noise_scale: float = 5e-3
    ctrl_cost_weight: float = 1e-3
    healthy_reward: float = 1.0
    """Reward of every step in which the walker is healthy."""
    terminate_when_unhealthy: bool = True
    """Whether an unhealthy walker's episode ends."""
    healthy_z_range: Range
    """Height of the torso [m] within which the walker is healthy."""
    healthy_angle_range: Range
    """Pitch of the torso [rad] within which the walker is healthy."""


class PlanarWalkerEnv(PlanarRunnerEnv):
    """A runner that can fall; velocities are observed within [-10, 10]."""

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        observation, info = super()._make_observation(sim)
        observation["qvel"] = np.clip(sim.qvel, -10, 10)
        info["z_distance_from_origin"] = sim.qpos[:, 1] - sim.model.qpos0[1]
        return observation, info

    def _make_step_info(self, sim: Sim) -> StructuredArrays:
        return {**super()._make_step_info(sim), "healthy": self._is_healthy(sim)}

    def _is_healthy(self, sim: Sim) -> NDArray[np.bool_]:
        height, angle = sim.qpos[:, 1], sim.qpos[:, 2]
        return within(height, self.cfg.healthy_z_range) & within(angle, self.cfg.healthy_angle_range)

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        terms = super()._compute_reward_terms(action, observation, info)
        survive = info["healthy"] * self.cfg.healthy_reward
        return {"forward": terms["forward"], "survive": survive, "ctrl": terms["ctrl"]}  # in the order of addition

    def _check_stop_criteria(
        self, sim: Sim, observation: StructuredArrays, info: StructuredArrays
    ) -> Iterable[Terminate]:
        return [Terminate(~info["healthy"], "Unhealthy")] if self.cfg.terminate_when_unhealthy else []
