"""What the benchmark tasks have in common: physics that can be drawn anew for each episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from superdex.lab.gym.envs.config import MochiEnvCfg
from superdex.lab.gym.envs.mochi_env import MochiEnv
from superdex.lab.gym.envs.randomization import SCALED_FIELDS, scale_physics
from superdex.lab.gym.envs.sim import Sim

__all__ = ["BenchmarkCfg", "BenchmarkEnv"]


@dataclass(frozen=True, kw_only=True)
class BenchmarkCfg(MochiEnvCfg):
    """Configuration common to the benchmark tasks."""

    randomize_physics: float = 0.0
    """At each reset, scale masses, damping and friction of the environment by factors uniform in 1 +- this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.randomize_physics <= 1:
            raise ValueError(
                f"randomize_physics must lie between 0 and 1, above which masses may become negative,"
                f" got {self.randomize_physics}."
            )


class BenchmarkEnv(MochiEnv):
    """A task whose physics `cfg.randomize_physics` scales."""

    cfg: Any  # of type `Cfg`, as in `TaskHooks`

    def __init__(self, cfg: BenchmarkCfg | Mapping[str, Any] | None = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        if self.cfg.randomize_physics:
            self.randomized_fields = SCALED_FIELDS

    def _randomize(self, sim: Sim) -> None:
        scale_physics(sim, self.cfg.randomize_physics)
