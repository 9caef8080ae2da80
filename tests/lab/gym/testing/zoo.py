"""Tasks that are wrong in one way each, and tasks that look suspicious but are right.

`BROKEN` maps each to the check that must catch it, and to what its verdict must name.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import mujoco
import numpy as np
from gymnasium.spaces import Box

from superdex.lab.gym.envs import MochiEnv, MochiEnvCfg, Sim, StructuredArrays, Terminate

XML = """
<mujoco>
  <option integrator="implicitfast"/>
  <worldbody>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" damping="0.2"/>
      <geom name="upper" type="capsule" fromto="0 0 0 0 0 -0.4" size="0.04"/>
      <body name="lower" pos="0 0 -0.4">
        <joint name="elbow" axis="0 1 0" damping="0.2"/>
        <geom name="lower" type="capsule" fromto="0 0 0 0 0 -0.4" size="{size}"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="shoulder"/><motor joint="elbow"/></actuator>
</mujoco>"""


@dataclass(frozen=True, kw_only=True)
class Cfg(MochiEnvCfg):
    """Of all tasks here."""

    reset_noise_scale: float = 0.1
    size: float = 0.03
    """Radius of the lower link [m]."""
    use_gravity: bool = True
    """Whether gravity acts."""


class Healthy(MochiEnv):
    """Right in every way; the others derive from it."""

    Cfg = Cfg
    cfg: Cfg
    uid_fields = ("size", "use_gravity")

    def _build_model(self) -> mujoco.MjModel:
        model = mujoco.MjModel.from_xml_string(XML.format(size=self.cfg.size))
        if not self.cfg.use_gravity:
            model.opt.gravity[:] = 0
        return model

    def _action_parts(self) -> Mapping[str, Box]:
        return {"torque": Box(-1, 1, (2,))}

    def _observation_parts(self) -> Mapping[str, Box]:
        return {key: Box(-np.inf, np.inf, (2,), np.float64) for key in ("pose", "vel")}

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl = action["torque"]

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        return {"pose": sim.qpos, "vel": sim.qvel}, {"speed": np.abs(sim.qvel).sum(axis=-1)}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {"still": -info["speed"]}

    def _check_stop_criteria(
        self, sim: Sim, observation: StructuredArrays, info: StructuredArrays
    ) -> Iterator[Terminate]:
        yield Terminate(info["speed"] > 3, "Too fast")


class Observing(Healthy):
    """Its observation has a part more, by `_extra`, (N,)."""

    def _observation_parts(self) -> Mapping[str, Box]:
        return {**super()._observation_parts(), "extra": Box(-np.inf, np.inf, (1,), np.float64)}

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        observation, info = super()._make_observation(sim)
        return {**observation, "extra": np.asarray(self._extra(sim))[:, None]}, info

    def _extra(self, sim: Sim) -> np.ndarray:
        return np.zeros(sim.num)


# Healthy, though they look suspicious


class OneByOne(Observing):
    """Works for one row only, and says so."""

    vectorized = False

    def _extra(self, sim: Sim) -> np.ndarray:
        return np.array([float(sim.qpos[0, 0]) if sim.qpos[:, 0] > 0 else 0.0])


class Caching(Observing):
    """Computes constants at their first use, and looks them up later."""

    def __init__(self, cfg: Any = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self.ids: dict[str, int] = {}
        self._declare_state("steps", (), np.int64)

    @cached_property
    def mass(self) -> float:
        return float(self.scene.model.body_mass.sum())

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        super()._apply_action(sim, action)
        sim.task["steps"][:] += 1

    def _extra(self, sim: Sim) -> np.ndarray:
        if "upper" not in self.ids:
            self.ids["upper"] = sim.model.body("upper").id
        return self.mass * sim.qpos[:, self.ids["upper"] - 1] + sim.task["steps"]


class Stopping(Healthy):
    """Gives a stop only where there is one, and draws while it steps."""

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl = action["torque"] + 0.1 * sim.standard_normal(2)

    def _check_stop_criteria(
        self, sim: Sim, observation: StructuredArrays, info: StructuredArrays
    ) -> Iterator[Terminate]:
        fast = info["speed"] > 2
        if fast.any():
            yield Terminate(fast, "Too fast")


class Randomizing(Healthy):
    """Gives each environment masses of its own."""

    randomized_fields = ("body_mass",)

    def _randomize(self, sim: Sim) -> None:
        sim.parameter("body_mass")[...] *= 1 + sim.random(1)


# runs


class RaisesWhenMade(Healthy):
    def __init__(self, cfg: Any = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        raise ValueError("no such robot")


class RaisesInHook(Healthy):
    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {"still": info["sped"]}


class WorksForOneRow(Observing):
    def _extra(self, sim: Sim) -> np.ndarray:
        return sim.qpos[:, 0] if sim.qpos[:, 0] > 0 else -sim.qpos[:, 0]


# derived_fields


class ReadsUndeclaredField(Observing):
    def _extra(self, sim: Sim) -> np.ndarray:
        return sim.body("lower").xpos[:, 2]


class ReadsDerivedFieldInReset(Healthy):
    derived_fields = ("xpos",)

    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        super()._reset(sim, options)
        sim.qpos[:, 0] = sim.body("lower").xpos[:, 2]


class DeclaresWhatIsNotComputed(Observing):
    derived_fields = ("cfrc_ext",)

    def _extra(self, sim: Sim) -> np.ndarray:
        return sim.body("lower").cfrc_ext[:, 0]


# spaces


class LeavesItsBounds(Observing):
    def _observation_parts(self) -> Mapping[str, Box]:
        return {**super()._observation_parts(), "extra": Box(-0.5, 0.5, (1,))}

    def _extra(self, sim: Sim) -> np.ndarray:
        return sim.time + 0.6


class IsNotFinite(Observing):
    def _extra(self, sim: Sim) -> np.ndarray:
        return np.log(-1 - np.square(sim.qpos[:, 0]))


class RewardIsNotFinite(Healthy):
    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {"still": info["speed"] / 0}


class HasAnotherShape(Healthy):
    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {"still": -info["speed"][:, None]}


class LeavesOutAPart(Healthy):
    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        return {"pose": sim.qpos}, {"speed": np.abs(sim.qvel).sum(axis=-1)}


class CutsOffFractions(Observing):
    def _observation_parts(self) -> Mapping[str, Box]:
        return {**super()._observation_parts(), "extra": Box(-9, 9, (1,), np.int64)}

    def _extra(self, sim: Sim) -> np.ndarray:
        return np.clip(sim.qpos[:, 0], -9, 9)


# gymnasium


@dataclass(frozen=True, kw_only=True)
class OneStepCfg(Cfg):
    """An episode is over at once."""

    steps_per_episode: int = 1


class EndsAtOnce(Healthy):
    Cfg = OneStepCfg


# determinism


class ReadsTheClock(Observing):
    def _extra(self, sim: Sim) -> np.ndarray:
        return np.full(sim.num, time.perf_counter())


class DrawsFromANewGenerator(Healthy):
    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl = action["torque"] + np.random.default_rng().normal(size=(sim.num, 2))


class IgnoresTheSeed(Healthy):
    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        sim.qpos = sim.qpos + np.random.default_rng(0).normal(size=2)


# undeclared_state


class CountsInAnAttribute(Observing):
    def __init__(self, cfg: Any = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self.count = 0

    def _extra(self, sim: Sim) -> np.ndarray:
        self.count += 1
        return np.full(sim.num, float(self.count))


class KeepsThePreviousPose(Healthy):
    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        self.previous = sim.qpos.copy()
        sim.ctrl = action["torque"]

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        moved = sim.qpos - getattr(self, "previous", sim.qpos)
        return {"pose": moved, "vel": sim.qvel}, {"speed": np.abs(sim.qvel).sum(axis=-1)}


class FillsABuffer(Observing):
    def __init__(self, cfg: Any = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self.buffer = np.zeros(8)

    def _extra(self, sim: Sim) -> np.ndarray:
        self.buffer[:] = np.roll(self.buffer, 1)
        self.buffer[0] = sim.time.max()
        return np.full(sim.num, self.buffer.mean())


class AppendsToAList(Observing):
    def __init__(self, cfg: Any = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self.logs: dict[str, list[float]] = {"times": []}

    def _extra(self, sim: Sim) -> np.ndarray:
        self.logs["times"].append(1.0)
        return np.full(sim.num, float(len(self.logs["times"])))


class RemembersTheFirstRows(Observing):
    """Sets an attribute once, which looks like a cache."""

    origin: np.ndarray | None = None

    def _extra(self, sim: Sim) -> np.ndarray:
        if self.origin is None:
            self.origin = sim.qpos[0, :1].copy()
        return sim.qpos[:, 0] - self.origin


class AdvancesAGenerator(Observing):
    def __init__(self, cfg: Any = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self.noise = self._endless()

    @staticmethod
    def _endless() -> Iterator[float]:
        number = 0.0
        while True:
            yield number
            number += 1

    def _extra(self, sim: Sim) -> np.ndarray:
        return np.full(sim.num, next(self.noise))


class HasAGeneratorOfItsOwn(Healthy):
    def __init__(self, cfg: Any = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self.rng = np.random.default_rng(0)

    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        sim.qpos = sim.qpos + self.rng.normal(size=(sim.num, 2))


class DrawsFromNumpysGenerator(Healthy):
    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        sim.qpos = sim.qpos + np.random.uniform(-0.1, 0.1, (sim.num, 2))


class DrawsFromPythonsGenerator(Healthy):
    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl = action["torque"] * random.uniform(0.9, 1.1)


_calls = 0
_history: list[int] = []


class CountsInAModule(Observing):
    def _extra(self, sim: Sim) -> np.ndarray:
        global _calls
        _calls += 1
        return np.full(sim.num, float(_calls))


def _note() -> int:
    _history.append(1)
    return len(_history)


class CountsInAHelper(Observing):
    def _extra(self, sim: Sim) -> np.ndarray:
        return np.full(sim.num, float(_note()))


class CountsInItsClass(Observing):
    tally: dict[str, int] = {}  # noqa: RUF012

    def _extra(self, sim: Sim) -> np.ndarray:
        self.tally["calls"] = self.tally.get("calls", 0) + 1
        return np.full(sim.num, float(self.tally["calls"]))


class CountsInADefault(Observing):
    def _extra(self, sim: Sim, seen: list[int] = []) -> np.ndarray:  # noqa: B006
        seen.append(1)
        return np.full(sim.num, float(len(seen)))


def _counting() -> Any:
    count = 0

    def extra(self: Any, sim: Sim) -> np.ndarray:
        nonlocal count
        count += 1
        return np.full(sim.num, float(count))

    return extra


class CountsInAClosure(Observing):
    _extra = _counting()


class ChangesTheModel(Healthy):
    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        super()._reset(sim, options)
        sim.model.geom_friction[0, 0] = 0.5 + sim.qpos[0, 0]


# rows


class NormalizesOverTheBatch(Healthy):
    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        observation, info = super()._make_observation(sim)
        return {**observation, "pose": sim.qpos - sim.qpos.mean(axis=0)}, info


class RanksItsRows(Healthy):
    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        observation, info = super()._make_observation(sim)
        return {**observation, "vel": np.sort(sim.qvel, axis=0)}, info


class DrivesAllByTheFirst(Healthy):
    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl[:] = action["torque"][0]


class ShiftsItsRows(Healthy):
    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl = np.roll(action["torque"], 1, axis=0)


class NumbersItsRows(Observing):
    def _extra(self, sim: Sim) -> np.ndarray:
        return np.arange(sim.num) / 10


class DrawsForTheFirstOnly(Healthy):
    """`self` is the first of the batch, and so is its generator."""

    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        sim.qpos = sim.qpos + self.np_random.uniform(-0.1, 0.1, (sim.num, 2))


class RandomizesAllAlike(Healthy):
    randomized_fields = ("body_mass",)

    def _randomize(self, sim: Sim) -> None:
        sim.parameter("body_mass")[...] *= 1 + sim.random(1)[0]


class SharesItsTarget(Observing):
    def __init__(self, cfg: Any = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self._declare_state("target")

    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        super()._reset(sim, options)
        sim.task["target"] = sim.random(1)[0]

    def _extra(self, sim: Sim) -> np.ndarray:
        return sim.task["target"]


class RewardsTheBest(Healthy):
    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        return {"best": (info["speed"] == info["speed"].max()).astype(float)}


class EndsAllTogether(Healthy):
    def _check_stop_criteria(
        self, sim: Sim, observation: StructuredArrays, info: StructuredArrays
    ) -> Iterator[Terminate]:
        yield Terminate(np.full(sim.num, (info["speed"] > 1).any()), "One is fast")


# batching


class CountsItsRows(Observing):
    def _extra(self, sim: Sim) -> np.ndarray:
        return np.full(sim.num, 1 / sim.num)


class RoundsByItsRows(Observing):
    """As a matrix product may do."""

    def _extra(self, sim: Sim) -> np.ndarray:
        terms = np.sin(sim.qpos[:, :1] * np.arange(64.0))
        return (terms if sim.num == 1 else terms[:, ::-1]).sum(axis=-1)


# workers


class DependsOnTheProcess(Observing):
    def _extra(self, sim: Sim) -> np.ndarray:
        return np.full(sim.num, float(hash("superdex") % 1000003))


# scene_name


class ForgetsAField(Healthy):
    uid_fields = ("use_gravity",)


@dataclass(frozen=True, kw_only=True)
class TerrainCfg(Cfg):
    """With fields of several kinds that change the model."""

    terrain: Literal["flat", "rough"] = "flat"
    """Kind of floor."""
    offset: tuple[float, float] | None = None
    """Where the arm hangs [m], or None for the origin."""


class ForgetsAnOption(Healthy):
    Cfg = TerrainCfg

    def _build_model(self) -> mujoco.MjModel:
        model = super()._build_model()
        if self.cfg.terrain == "rough":  # type: ignore[attr-defined]
            model.geom_friction[0, 0] = 2
        return model


class ForgetsATuple(Healthy):
    Cfg = TerrainCfg

    def _build_model(self) -> mujoco.MjModel:
        model = super()._build_model()
        model.body_pos[1, :2] = self.cfg.offset or (0, 0)  # type: ignore[attr-defined]
        return model


@dataclass(frozen=True, kw_only=True)
class FloorCfg(Cfg):
    """With a field whose values cannot be guessed."""

    floor: str = "wood"
    """Kind of floor."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.floor not in ("wood", "ice"):
            raise ValueError(f"There is no floor {self.floor!r}.")


class ReadsAName(Healthy):
    Cfg = FloorCfg

    def _build_model(self) -> mujoco.MjModel:
        model = super()._build_model()
        model.geom_friction[:, 0] = 0.1 if self.cfg.floor == "ice" else 1  # type: ignore[attr-defined]
        return model


class ForgetsAFieldOfOnePosition(Healthy):
    """The field matters without gravity only."""

    uid_fields = ("use_gravity",)

    def _build_model(self) -> mujoco.MjModel:
        model = mujoco.MjModel.from_xml_string(XML.format(size=0.03 if self.cfg.use_gravity else self.cfg.size))
        if not self.cfg.use_gravity:
            model.opt.gravity[:] = 0
        return model


# capture


class KeepsStateInTheProcess(Observing):
    """Correct, by itself; but out of reach of a snapshot, and of every other check."""

    vectorized = False

    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        super()._reset(sim, options)
        os.environ[f"ZOO_{id(self)}"] = "0"

    def _extra(self, sim: Sim) -> np.ndarray:
        count = int(os.environ[f"ZOO_{id(self)}"])
        os.environ[f"ZOO_{id(self)}"] = str(count + 1)
        return np.array([float(count)])


class BringsAnotherGenerator(Healthy):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self._np_random = np.random.Generator(np.random.PCG64DXSM(seed))
        return super().reset(options=options)


# divergence


class DividesByDeclaredState(Observing):
    """Which is zero after a divergence."""

    def __init__(self, cfg: Any = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self._declare_state("scale")

    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        super()._reset(sim, options)
        sim.task["scale"] = 2

    def _extra(self, sim: Sim) -> np.ndarray:
        return (1 + sim.qpos[:, 0]) / sim.task["scale"]


# pickling


def _holding(lock: threading.Lock) -> type[MochiEnv]:
    class HoldsALock(Healthy):
        guard = lock

    return HoldsALock


HoldsALock = _holding(threading.Lock())


# Warnings


class NamesTooMuch(Healthy):
    uid_fields = ("size", "use_gravity", "reset_noise_scale")


class MakesItsOwnScene(Healthy):
    def _create_scene(self) -> Any:
        from superdex.physics import Scene

        return Scene("own", self._build_model())


class Explodes(Healthy):
    """An action at the upper bound makes the simulation diverge."""

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        sim.ctrl = action["torque"]
        sim.qvel[action["torque"][:, 0] >= 1] = np.nan


HEALTHY: list[type[MochiEnv]] = [Healthy, Observing, OneByOne, Caching, Stopping, Randomizing]

# (task, the check that catches it, what its verdict names)
BROKEN: list[tuple[type[MochiEnv], str, str]] = [
    (RaisesWhenMade, "runs", "in __init__ ValueError: no such robot"),
    (RaisesInHook, "runs", "in _compute_reward_terms KeyError: 'sped' (zoo.py:"),
    (WorksForOneRow, "runs", "in _make_observation ValueError: The truth value"),
    (ReadsUndeclaredField, "derived_fields", "'xpos' is a derived field that is not tracked"),
    (ReadsDerivedFieldInReset, "derived_fields", "_reset cannot read 'xpos'"),
    (DeclaresWhatIsNotComputed, "derived_fields", "Add one of these sensors"),
    (LeavesItsBounds, "spaces", "observation 'extra' is 0.6"),
    (IsNotFinite, "spaces", "observation 'extra' holds nan"),
    (RewardIsNotFinite, "spaces", "the reward is inf"),
    (HasAnotherShape, "spaces", "Reward term 'still' must have shape (1,)"),
    (LeavesOutAPart, "spaces", "missing ['vel']"),
    (CutsOffFractions, "spaces", "declared as int64 but computed as float64"),
    (EndsAtOnce, "gymnasium", "truncates after 1 step"),
    (ReadsTheClock, "determinism", "observation 'extra'"),
    (DrawsFromANewGenerator, "determinism", "another rollout"),
    (IgnoresTheSeed, "determinism", "every seed gives the same initial state"),
    (CountsInAnAttribute, "undeclared_state", "_make_observation keeps state in self.count"),
    (KeepsThePreviousPose, "undeclared_state", "_apply_action keeps state in self.previous"),
    (FillsABuffer, "undeclared_state", "self.buffer"),
    (AppendsToAList, "undeclared_state", "self.logs"),
    (RemembersTheFirstRows, "undeclared_state", "self.origin"),
    (AdvancesAGenerator, "undeclared_state", "self.noise"),
    (HasAGeneratorOfItsOwn, "undeclared_state", "_reset keeps state in self.rng"),
    (DrawsFromNumpysGenerator, "undeclared_state", "_reset draws from numpy.random's global generator"),
    (DrawsFromPythonsGenerator, "undeclared_state", "_apply_action draws from random's global generator"),
    (CountsInAModule, "undeclared_state", "zoo._calls"),
    (CountsInAHelper, "undeclared_state", "zoo._history"),
    (CountsInItsClass, "undeclared_state", "CountsInItsClass.tally"),
    (CountsInADefault, "undeclared_state", "the default arguments of CountsInADefault._extra"),
    (CountsInAClosure, "undeclared_state", "count of _counting.<locals>.extra"),
    (ChangesTheModel, "undeclared_state", "geom_friction"),
    (NormalizesOverTheBatch, "rows", "_make_observation mixes rows: observation 'pose'"),
    (RanksItsRows, "rows", "_make_observation mixes rows: observation 'vel'"),
    (DrivesAllByTheFirst, "rows", "_apply_action mixes rows: sim.ctrl"),
    (ShiftsItsRows, "rows", "_apply_action mixes rows: sim.ctrl"),
    (NumbersItsRows, "rows", "changes with the row's place"),
    (DrawsForTheFirstOnly, "rows", "_reset mixes rows: sim.qpos"),
    (RandomizesAllAlike, "rows", "_randomize mixes rows: sim.parameter('body_mass')"),
    (SharesItsTarget, "rows", "_reset mixes rows: sim.task['target']"),
    (RewardsTheBest, "rows", "_compute_reward_terms mixes rows: reward term 'best'"),
    (EndsAllTogether, "rows", "_check_stop_criteria mixes rows: stop 0 ('One is fast')"),
    (CountsItsRows, "batching", "observation 'extra' of environment 0 is 0.2 instead of 1.0"),
    (RoundsByItsRows, "batching", "(rounding)"),
    (ForgetsAField, "scene_name", "geom_size"),
    (ForgetsAnOption, "scene_name", "terrain changes the model (geom_friction)"),
    (ForgetsATuple, "scene_name", "offset changes the model (body_pos"),
    (ForgetsAFieldOfOnePosition, "scene_name", "size changes the model"),
    (KeepsStateInTheProcess, "capture", "observation 'extra'"),
    (BringsAnotherGenerator, "capture", "PCG64"),
    (DividesByDeclaredState, "divergence", "the observation is not finite"),
    (HoldsALock, "pickling", "the class cannot be pickled"),
]

# (task, check, what its verdict names)
SUSPICIOUS: list[tuple[type[MochiEnv], str, str]] = [
    (NamesTooMuch, "scene_name", "reset_noise_scale is in the scene's name"),
    (MakesItsOwnScene, "scene_name", "not made through _load_scene"),
    (Explodes, "spaces", "makes the simulation diverge"),
]
