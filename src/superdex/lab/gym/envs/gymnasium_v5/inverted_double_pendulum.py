"""InvertedDoublePendulum-v5: keep a pole on a pole upright by pushing the cart that they stand on.

| | |
|---|---|
| action `ctrl` | (1,) force on the cart, in [-1, 1] |
| observation `position` | (1,) of the cart [m] |
| observation `sin`, `cos` | (2,) each, of the two angles |
| observation `qvel` | (3,) of the cart [m/s] and the angles [rad/s], clipped to [-10, 10] |
| observation `constraint` | (1,) force of joint limits on the cart [N], clipped to [-10, 10] |
| reward | `survive`: while the tip is high; `distance`, `velocity`: less squared distance and velocity |
| terminated | "Unhealthy": the tip is no higher than 1 m |
| truncated | "Steps per episode reached", after 1000 steps of 0.05 s |

The tip and the force are one substep behind the state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from superdex.lab.gym.envs.gymnasium_v5.base import GymnasiumCfg, GymnasiumEnv, unbounded
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays, Terminate
from superdex.physics.rendering import View

__all__ = ["InvertedDoublePendulumV5Cfg", "InvertedDoublePendulumV5Env"]


@dataclass(frozen=True, kw_only=True)
class InvertedDoublePendulumV5Cfg(GymnasiumCfg):
    """Configuration of `InvertedDoublePendulumV5Env`: the keywords of Gymnasium's InvertedDoublePendulum-v5."""

    xml_file: str = "inverted_double_pendulum.xml"
    frame_skip: int = 5
    reset_noise_scale: float = 0.1
    healthy_reward: float = 10.0
    """Reward of every step in which the tip is high."""


class InvertedDoublePendulumV5Env(GymnasiumEnv):
    """See the module's docstring."""

    Cfg = InvertedDoublePendulumV5Cfg
    cfg: InvertedDoublePendulumV5Cfg
    view = View(distance=3.6, elevation=-10, lookat=(0, 0, 0.4))
    derived_fields = ("site_xpos", "qfrc_constraint")
    normal_velocities = True

    def _observation_parts(self) -> dict[str, Box]:
        return {name: unbounded(size) for name, size in _SIZES.items()}

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        angles = sim.qpos[:, 1:].copy()  # a sine may depend on how its arguments lie in memory
        return {
            "position": sim.qpos[:, :1],
            "sin": np.sin(angles),
            "cos": np.cos(angles),
            "qvel": np.clip(sim.qvel, -10, 10),
            "constraint": np.clip(sim.qfrc_constraint[:, :1], -10, 10),
        }, {}

    def _make_step_info(self, sim: Sim) -> StructuredArrays:
        x, y = sim.site_xpos[:, 0, 0], sim.site_xpos[:, 0, 2]
        distance = 0.01 * _square(x) + _square(y - 2)
        velocity = 1e-3 * _square(sim.qvel[:, 1]) + 5e-3 * _square(sim.qvel[:, 2])
        return {"healthy": ~(y <= 1), "distance_penalty": -distance, "velocity_penalty": -velocity}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {
            "survive": self.cfg.healthy_reward * info["healthy"],
            "distance": info["distance_penalty"],
            "velocity": info["velocity_penalty"],
        }

    def _check_stop_criteria(
        self, sim: Sim, observation: StructuredArrays, info: StructuredArrays
    ) -> Iterable[Terminate]:
        return [Terminate(~info["healthy"], "Unhealthy")]


_SIZES = {"position": 1, "sin": 2, "cos": 2, "qvel": 3, "constraint": 1}


def _square(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N,) squares as the power of a scalar: C's `pow`, whose last bit is another than a product's once in 1000."""
    return np.array([value**2 for value in values.tolist()])
