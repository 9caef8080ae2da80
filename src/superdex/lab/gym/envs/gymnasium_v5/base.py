"""What Gymnasium's v5 MuJoCo tasks have in common.

They load the MJCF of the installed `gymnasium` as it is, take the time step from it,
and make `frame_skip` physics steps per control step. Observations are float64, in the
order in which their parts are declared, actions float32 and not clipped (MuJoCo
clips the controls it applies; the control cost is that of the action given).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import mujoco
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from superdex.lab.gym.envs.config import TaskCfg
from superdex.lab.gym.envs.mochi_env import MochiEnv
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import StructuredArrays
from superdex.physics import compute_wrenches, load_model

__all__ = [
    "FixedNoiseCfg",
    "GymnasiumCfg",
    "GymnasiumEnv",
    "Range",
    "model_path",
    "norm",
    "squared_cost",
    "unbounded",
    "within",
]

ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"

_COST_DTYPE = (1.0 * np.float32(1)).dtype
"""Of a number times a float32: float32, but float64 in NumPy 1."""


Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class GymnasiumCfg(TaskCfg):
    """Configuration common to Gymnasium's v5 MuJoCo tasks; rates follow from the model and `frame_skip`."""

    steps_per_episode: int = 1000
    xml_file: str
    """The model: a file of Gymnasium's, or a path that starts with "/", "." or "~"."""
    frame_skip: int
    """Physics steps per control step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frame_skip < 1:
            raise ValueError(f"frame_skip must be at least 1, got {self.frame_skip}.")

    @property
    def num_substeps(self) -> int:
        """Physics steps per control step."""
        return self.frame_skip


@dataclass(frozen=True, kw_only=True)
class FixedNoiseCfg(GymnasiumCfg):
    """Configuration of a task whose noise at a reset is not a matter of configuration."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reset_noise_scale != 0:
            raise ValueError(f"{type(self).__name__} has noise of its own at a reset: leave reset_noise_scale alone.")


class GymnasiumEnv(MochiEnv):
    """A task whose action is the actuators' control, `ctrl`; observations and rewards are up to subclasses."""

    uid_fields = ("xml_file",)
    clips_actions = False
    frame_size = (480, 480)
    alphabetical = False
    normal_velocities: ClassVar[bool] = False
    """Whether the noise on initial velocities is normal, not uniform."""

    def _build_model(self) -> mujoco.MjModel:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "compiler attribute 'settotalmass' is deprecated")  # in half_cheetah.xml
            return load_model(model_path(self.cfg.xml_file), _prepare, "cfrc_ext" in self.derived_fields)

    def _action_parts(self) -> dict[str, Box]:
        bounds = self.scene.model.actuator_ctrlrange.astype(np.float32)
        return {"ctrl": Box(bounds[:, 0], bounds[:, 1], dtype=np.float32)}

    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        scale, nq, nv = self.cfg.reset_noise_scale, sim.model.nq, sim.model.nv
        if self.normal_velocities:
            sim.qpos += sim.uniform(-scale, scale, nq)
            sim.qvel += scale * sim.standard_normal(nv)
        else:  # one call draws what two would, and calls are what a reset costs
            noise = sim.uniform(-scale, scale, nq + nv)
            sim.qpos += noise[:, :nq]
            sim.qvel += noise[:, nq:]

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl = action["ctrl"]


def model_path(xml_file: str) -> Path:
    """The file that Gymnasium's `xml_file` means."""
    if xml_file.startswith("~"):
        return Path(xml_file).expanduser()
    return Path(xml_file) if xml_file.startswith((".", "/")) else ASSETS / xml_file


def within(values: NDArray[np.float64], bounds: Range) -> NDArray[np.bool_]:
    """Which values lie between two bounds, neither included."""
    return (bounds[0] < values) & (values < bounds[1])


def unbounded(size: int) -> Box:
    """A part of an observation: (size,) float64 without bounds."""
    return Box(-np.inf, np.inf, (size,), np.float64)


def squared_cost(weight: float, action: NDArray[Any]) -> NDArray[Any]:
    """(N,) `weight` times the sum of squares of (N, k), in the precision that scalars have in Gymnasium."""
    squares = np.square(action).sum(axis=-1)
    return weight * (squares.astype(_COST_DTYPE) if squares.dtype == np.float32 else squares)


def norm(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N,) Euclidean norms of (N, k), each by the dot product that `np.linalg.norm` takes for one vector.

    A matrix product of 1 x k by k x 1 is that dot product, one row at a time. Elementwise
    squares and sums differ in the last bit where a dot product fuses them.
    """
    return np.sqrt(np.matmul(vectors[:, None, :], vectors[:, :, None])[:, 0, 0])


def _prepare(spec: mujoco.MjSpec, wrenches: bool) -> None:
    if wrenches:
        compute_wrenches(spec)
    for key in spec.keys:
        key.name = ""  # an episode starts from the model's default pose, whatever keyframes there are
