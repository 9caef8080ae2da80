"""Runners that move in the xy plane: what Swimmer, Ant and Humanoid have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from superdex.lab.gym.envs.gymnasium_v5.base import GymnasiumCfg, GymnasiumEnv, Range, norm, within
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays, Terminate

__all__ = ["SpatialRunnerCfg", "SpatialRunnerEnv", "SpatialWalkerCfg", "SpatialWalkerEnv"]


@dataclass(frozen=True, kw_only=True)
class SpatialRunnerCfg(GymnasiumCfg):
    """Configuration of `SpatialRunnerEnv`."""

    forward_reward_weight: float = 1.0
    """Reward per m/s of velocity along x."""
    ctrl_cost_weight: float
    """Cost per squared unit of action."""
    exclude_current_positions_from_observation: bool = True
    """Whether the x and y positions are left out of the observation."""


class SpatialRunnerEnv(GymnasiumEnv):
    """Tells where it is, and its mean velocity over a step."""

    task_state: ClassVar = {"xy_before": (2,)}

    def _place(self, sim: Sim) -> NDArray[np.float64]:
        """(N, 2) x and y of what is meant to move [m]."""
        raise NotImplementedError

    def _pose(self, sim: Sim) -> NDArray[np.float64]:
        """(N, k) the positions that are observed."""
        return sim.qpos[:, 2:] if self.cfg.exclude_current_positions_from_observation else sim.qpos

    @property
    def _pose_size(self) -> int:
        return self.scene.model.nq - 2 * self.cfg.exclude_current_positions_from_observation

    def _whereabouts(self, sim: Sim) -> StructuredArrays:
        """Infos on the first two coordinates [m]."""
        xy = sim.qpos[:, :2]
        return {"x_position": xy[:, 0], "y_position": xy[:, 1], "distance_from_origin": norm(xy)}

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.task["xy_before"] = self._place(sim)
        sim.ctrl = action["ctrl"]

    def _make_step_info(self, sim: Sim) -> StructuredArrays:
        velocity = (self._place(sim) - sim.task["xy_before"]) / self.dt
        return {"x_velocity": velocity[:, 0], "y_velocity": velocity[:, 1]}


@dataclass(frozen=True, kw_only=True)
class SpatialWalkerCfg(SpatialRunnerCfg):
    """Configuration of `SpatialWalkerEnv`."""

    contact_cost_weight: float
    """Cost per squared unit of contact wrench."""
    healthy_reward: float
    """Reward of every step in which the robot is healthy."""
    terminate_when_unhealthy: bool = True
    """Whether an unhealthy robot's episode ends."""
    healthy_z_range: Range
    """Height of the torso [m] within which the robot is healthy."""


class SpatialWalkerEnv(SpatialRunnerEnv):
    """A runner that can fall, and whose contacts cost."""

    def _is_healthy(self, sim: Sim) -> NDArray[np.bool_]:
        """(N,) whether the torso is within `healthy_z_range`."""
        return within(sim.qpos[:, 2], self.cfg.healthy_z_range)

    def _make_step_info(self, sim: Sim) -> StructuredArrays:
        return {**super()._make_step_info(sim), "healthy": self._is_healthy(sim)}

    def _total_reward(self, terms: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        # Gymnasium's order of additions: rewards, costs, then both
        return (terms["forward"] + terms["survive"]) + (terms["ctrl"] + terms["contact"])

    def _check_stop_criteria(
        self, sim: Sim, observation: StructuredArrays, info: StructuredArrays
    ) -> Iterable[Terminate]:
        return [Terminate(~info["healthy"], "Unhealthy")] if self.cfg.terminate_when_unhealthy else []
