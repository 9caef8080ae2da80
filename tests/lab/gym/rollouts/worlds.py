"""Small tasks whose returns and values are known, and policies for tests of learning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import mujoco
import numpy as np
from gymnasium.spaces import Box

from superdex.lab.gym.envs import MochiEnv, MochiEnvCfg, Sim, StructuredArrays, Terminate
from superdex.lab.gym.rollouts.noise import standard_normal

POINT_XML = """
<mujoco><worldbody><body><joint name="slide" type="slide" axis="1 0 0"/><geom size="0.1"/></body></worldbody>
<actuator><motor joint="slide"/></actuator></mujoco>"""


class ChainEnv(MochiEnv):
    """Reward 1 in every step; the observation tells how many steps were taken. Its model does not matter."""

    def __init__(self, cfg: MochiEnvCfg | Mapping[str, Any] | None = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self._declare_state("count")

    def _build_model(self) -> mujoco.MjModel:
        return mujoco.MjModel.from_xml_string(POINT_XML)

    def _action_parts(self) -> Mapping[str, Box]:
        return {"force": Box(-1, 1, (1,))}

    def _observation_parts(self) -> Mapping[str, Box]:
        return {"count": Box(-np.inf, np.inf, (1,))}

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.task["count"][:] += 1

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        return {"count": sim.task["count"][:, None] / 30}, {}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {"one": np.ones(len(action["force"]))}


class TwoStateEnv(ChainEnv):
    """Reward 0 in the first step of an episode and 1 afterwards; the observation tells 0 and 1."""

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        count = sim.task["count"]
        return {"count": np.minimum(count, 1)[:, None]}, {"first": count == 1}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {"running": 1.0 - info["first"]}


class EndingChainEnv(ChainEnv):
    """The task ends the episode in the tenth step, in which the limit may end it too; one-hot counts are observed."""

    def _observation_parts(self) -> Mapping[str, Box]:
        return {"count": Box(0, 1, (11,))}

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        return {"count": np.eye(11)[sim.task["count"].astype(int)]}, {}

    def _check_stop_criteria(
        self, sim: Sim, observation: StructuredArrays, info: StructuredArrays
    ) -> Iterable[Terminate]:
        return [Terminate(sim.task["count"] >= 10, "Done")]


class Wanderer:
    """A picklable policy of pure noise, a function of step and environment."""

    def __init__(self, size: int, scale: float = 1.0) -> None:
        self.size = size
        self.scale = scale

    def __call__(self, observation: np.ndarray, step: int, environments: slice) -> np.ndarray:
        assert len(observation) == environments.stop - environments.start
        return np.float32(self.scale) * standard_normal(11, step, environments, self.size)
