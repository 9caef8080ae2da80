"""Tasks and helpers for the tests of the environment layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from gymnasium.spaces import Box

from superdex.lab.gym.envs import MochiEnv, MochiEnvCfg, Sim, StructuredArrays, Terminate, Truncate
from superdex.lab.gym.envs.reasons import Reasons
from superdex.lab.gym.envs.task_batch import TaskBatch

ARM_XML = """
<mujoco model="arm">
  <option integrator="implicitfast"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 0.1"/>
    <geom name="mark" size="0.01" pos="2 0 0" contype="0" conaffinity="0"/>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" range="-60 60" limited="true" damping="0.2"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.04"/>
      <body name="lower" pos="0 0 -0.4">
        <joint name="elbow" axis="0 1 0" damping="0.2"/>
        <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
        <site name="tip" pos="0.3 0 0"/>
      </body>
    </body>
    <body name="puck" pos="1 0 0.2"><freejoint name="puck"/><geom name="puck" size="0.1"/></body>
    <body name="swing" pos="0 2 1"><joint name="ball" type="ball"/><geom size="0.1" pos="0.2 0 0"/></body>
  </worldbody>
  <actuator>
    <motor name="shoulder" joint="shoulder"/>
    <general name="elbow" joint="elbow" dyntype="filter" dynprm="0.05"/>
  </actuator>
  <sensor>
    <accelerometer name="imu" site="tip"/>
    <framepos name="puck" objtype="body" objname="puck"/>
  </sensor>
</mujoco>"""


@dataclass(frozen=True, kw_only=True)
class ArmCfg(MochiEnvCfg):
    """Configuration of `ArmEnv`."""

    reset_noise_scale: float = 0.05
    use_gravity: bool = True
    """Whether gravity acts."""
    gain: float = 0.3
    """Feedback of a derived quantity into the controls."""


class ArmEnv(MochiEnv):
    """Uses all that a task may: declared state, draws, applied forces, sensors, and derived fields before it steps."""

    Cfg = ArmCfg
    cfg: ArmCfg
    uid_fields = ("use_gravity",)
    derived_fields = ("xpos", "site_xpos", "geom_xpos", "sensordata")

    def __init__(self, cfg: ArmCfg | dict[str, Any] | None = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self._declare_state("target", (3,))
        self._declare_state("previous")
        self._declare_state("count", (), np.int64)

    def _build_model(self) -> mujoco.MjModel:
        model = mujoco.MjModel.from_xml_string(ARM_XML)
        if not self.cfg.use_gravity:
            model.opt.gravity[:] = 0
        return model

    def _action_parts(self) -> Mapping[str, Box]:
        return {"torque": Box(-1, 1, (2,)), "lift": Box(0, 5, ())}

    def _observation_parts(self) -> Mapping[str, Box]:
        sizes = {"pose": (13,), "vel": (11,), "tip": (3,), "imu": (3,), "puck": (3,), "target": (3,), "past": (2, 1)}
        return {key: Box(-np.inf, np.inf, shape, np.float64) for key, shape in sizes.items()}

    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        super()._reset(sim, options)
        sim.task["target"] = sim.draw(lambda generator: generator.uniform(-1, 1, 3))
        sim.joint("shoulder").qpos = options.get("shoulder", 0.1)

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        height = sim.body("lower").xpos[:, 2:]
        sim.ctrl = action["torque"] + self.cfg.gain * height
        sim.body("puck").xfrc_applied[:, 2] = action["lift"] - sim.geom("puck").xpos[:, 2]
        sim.task["count"][:] += 1

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        past = np.stack([sim.task["previous"], sim.task["count"]], axis=1)[:, :, None]
        sim.task["previous"][:] = sim.qpos[:, 0] + 1
        observation = {
            "pose": sim.qpos,
            "vel": sim.qvel,
            "tip": sim.site("tip").xpos,
            "imu": sim.sensor("imu"),
            "puck": sim.sensor("puck"),
            "target": sim.task["target"],
            "past": past,
        }
        return observation, {"time": sim.time, "upper": sim.body("upper").xpos, "low": sim.qpos[:, 0] < 0}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        distance = np.square(observation["tip"] - observation["target"]).sum(axis=-1)
        return {"near": -distance, "calm": -0.1 * np.square(action["torque"]).sum(axis=-1)}

    def _check_stop_criteria(
        self, sim: Sim, observation: StructuredArrays, info: StructuredArrays
    ) -> Iterable[Terminate | Truncate]:
        yield Terminate(sim.qpos[:, 1] > 1.5, "Elbow bent up")
        yield Terminate(sim.qpos[:, 1] < -1.5, "Elbow bent down")
        yield Truncate(sim.task["count"] >= 90, "Count reached")


class SubstepArmEnv(ArmEnv):
    """Acts before each physics step."""

    acts_per_substep = True


PENDULUM_XML = """
<mujoco model="pendulum">
  <worldbody>
    <body name="pole" pos="0 0 1">
      <joint name="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.05"/>
    </body>
  </worldbody>
  <actuator><motor joint="hinge"/></actuator>
</mujoco>"""


class PendulumEnv(MochiEnv):
    """The least that a task has to be. Tests derive from it or replace its hooks."""

    def _build_model(self) -> mujoco.MjModel:
        return mujoco.MjModel.from_xml_string(PENDULUM_XML)

    def _action_parts(self) -> Mapping[str, Box]:
        return {"torque": Box(-1, 1, (1,))}

    def _observation_parts(self) -> Mapping[str, Box]:
        return {"vel": Box(-np.inf, np.inf, (1,)), "pose": Box(-np.inf, np.inf, (1,))}

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl = action["torque"]

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        return {"pose": sim.qpos, "vel": sim.qvel}, {}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {"still": -np.abs(observation["vel"][:, 0])}


class BombEnv(PendulumEnv):
    """Its simulation blows up if the action is above 0.9; the declared state takes what it sees on the way."""

    acts_per_substep = True

    def __init__(self, cfg: MochiEnvCfg | Mapping[str, Any] | None = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self._declare_state("integral")

    def _observation_parts(self) -> Mapping[str, Box]:
        return {**super()._observation_parts(), "integral": Box(-np.inf, np.inf, (1,))}

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl = action["torque"]
        sim.qvel[action["torque"][:, 0] > 0.9] = np.nan
        sim.task["integral"][:] += sim.qpos[:, 0] + 0 * sim.qvel[:, 0]

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        observation, info = super()._make_observation(sim)
        return {**observation, "integral": sim.task["integral"][:, None]}, info


class Buffers:
    """What a `TaskBatch` writes to, filled with rubbish."""

    def __init__(self, batch: TaskBatch) -> None:
        self.batch = batch
        layout, count = batch.task.observation_layout, len(batch.members)
        self.observation = np.full((count, layout.size), 77, layout.dtype)
        self.reward = np.full(count, 77.0)
        self.terminated = np.ones(count, np.bool_)
        self.truncated = np.ones(count, np.bool_)

    def reset(
        self,
        rows: np.ndarray | None = None,
        seeds: Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> StructuredArrays:
        return self.batch.reset(rows, seeds, options, self.observation)

    def step(self, rows: np.ndarray | None, action: np.ndarray) -> dict[str, Any]:
        return self.batch.step(rows, action, self.observation, self.reward, self.terminated, self.truncated)


def make_batch(envs: Sequence[MochiEnv], num_threads: int = 1) -> Buffers:
    """The environments as one native batch."""
    return Buffers(TaskBatch(envs, envs[0].scene.make_batch(len(envs), num_threads)))


def info_of(infos: Mapping[str, Any], position: int) -> dict[str, Any]:
    """The infos of one row in play, as an environment alone would give them."""
    return {
        name: value.table[value.codes[position]] if isinstance(value, Reasons) else value[position]
        for name, value in infos.items()
    }


def assert_same_info(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Equal to the bit, key for key."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert np.array_equal(actual[name], value), name
