"""What a task's hooks see of the physics: the rows in play, as arrays.

    def _apply_action(self, sim, action):
        sim.ctrl = action["control"]                     # (N, nu)

    def _make_observation(self, sim):
        tip = sim.body("tip").xpos                       # (N, 3), one substep behind qpos
        return {"pose": sim.qpos, "tip": tip}, {}

Every array has a leading axis of N environments: all of a batch, those of it that
are reset, or a single one. Which it is makes no difference to a hook, nor to its
results. (In a step, a batch's hooks see the environments that are about to be
reset, too; what they make of them is dropped.)

State fields (`qpos`, `ctrl`, `xfrc_applied`, ...) may be written, whole or in
part, where the physics is about to run: in `_reset` and `_apply_action`. In the
other hooks they are read-only. Derived fields (`xpos`, `sensordata`, ...) must be
listed in the task's `derived_fields`; they are what the last physics step
computed, one substep behind the state, and read-only. `_reset` cannot read them:
they follow from the state that it makes. `sim.task[name]` is the state that the
task declared; every hook may write it, in part or by `sim.task[name] = value`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from superdex.lab.gym.envs.parts import JointPart, Part
from superdex.physics import Rows, SceneBatch
from superdex.physics.scene_batch import STATE_FIELDS

__all__ = ["Sim"]


class _StateField:
    """A field of the state as an attribute that reads and writes the rows in play."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, sim: Sim, owner: type | None = None) -> NDArray[np.float64]:
        return sim.field(self.name)

    def __set__(self, sim: Sim, value: Any) -> None:
        sim.field(self.name)[...] = value


class Sim:
    """The rows in play of a `SceneBatch` and of the task's own state.

    Args:
        physics: the simulations.
        task_state: (count, ...) the task's declared state by name.
        generators: (count,) the environments' random generators.
        rows: sorted indices of the rows in play, or None for all.
        running: with all rows in play, those that are not about to be reset, or None for all:
            only their generators draw.
        writable: whether the physics state may be written.
        derived: whether derived fields may be read.
        randomizing: whether the model's fields may be written.
    """

    # a misspelt `sim.crtl = ...` is an error
    __slots__ = (
        "_arrays",
        "_derived",
        "_generators",
        "_parameters",
        "_physics",
        "_randomizing",
        "_rows",
        "_running",
        "_writable",
        "model",
        "num",
        "task",
    )

    qpos = _StateField("(N, nq) positions [m, rad, quaternions].")
    qvel = _StateField("(N, nv) velocities [m/s, rad/s].")
    act = _StateField("(N, na) actuator activations.")
    ctrl = _StateField("(N, nu) controls, held until they are written again.")
    qfrc_applied = _StateField("(N, nv) generalised forces [N, N m], held until they are written again.")
    xfrc_applied = _StateField("(N, nbody, 6) force [N] and torque [N m] on each body at its centre of mass, held.")
    mocap_pos = _StateField("(N, nmocap, 3) positions of mocap bodies [m].")
    mocap_quat = _StateField("(N, nmocap, 4) orientations of mocap bodies.")
    eq_active = _StateField("(N, neq) 1 for active equality constraints, else 0.")
    userdata = _StateField("(N, nuserdata) the model's user data.")
    time = _StateField("(N,) simulated time since the reset [s].")

    def __init__(
        self,
        physics: SceneBatch,
        task_state: Mapping[str, NDArray[Any]],
        generators: NDArray[np.object_],
        rows: Rows,
        *,
        running: Rows = None,
        writable: bool,
        derived: bool = True,
        randomizing: bool = False,
    ) -> None:
        self.num = physics.count if rows is None else len(rows)
        """N, the number of environments in play."""
        self.model = physics.scene.model
        """The compiled `mujoco.MjModel`, for names, limits and constants."""
        self._physics = physics
        self._generators = generators
        self._rows = rows
        self._running = running
        self._writable = writable
        self._derived = derived
        self._randomizing = randomizing
        self._arrays: dict[str, NDArray[Any]] = {}
        self._parameters: dict[str, NDArray[Any]] = {}
        self.task = _TaskState(task_state, rows)
        """The task's declared state by name, each (N, *shape)."""

    def field(self, name: str) -> NDArray[Any]:
        """(N, ...) a field by its name in `mujoco.MjData`.

        Raises:
            AttributeError: if there is no such field, or it is derived and not
                among the task's `derived_fields`.
        """
        array = self._arrays.get(name)
        if array is None:
            if not self._derived and name not in STATE_FIELDS:
                raise AttributeError(f"_reset cannot read {name!r}: derived fields are computed after it.")
            whole = self._physics.field(name)
            array = whole[:] if self._rows is None else whole[self._rows]
            if not (self._writable and whole.flags.writeable):
                array.setflags(write=False)
            self._arrays[name] = array
        return array

    def parameter(self, name: str) -> NDArray[Any]:
        """(N, ...) each environment's own value of a model field; to be written in `_randomize` only.

        Raises:
            AttributeError: if the field is not among the task's `randomized_fields`.
        """
        array = self._parameters.get(name)
        if array is None:
            whole = self._physics.parameter(name)
            array = whole[:] if self._rows is None else whole[self._rows]
            array.flags.writeable = self._randomizing
            self._parameters[name] = array
        return array

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.field(name)

    def body(self, name: str) -> Part:
        """A body's part of fields: `sim.body("torso").xpos` is (N, 3)."""
        return Part(self, "body", self.model.body(name).id)

    def geom(self, name: str) -> Part:
        """A geom's part of fields: `sim.geom("foot").xpos` is (N, 3), of the field `geom_xpos`."""
        return Part(self, "geom", self.model.geom(name).id)

    def site(self, name: str) -> Part:
        """A site's part of fields: `sim.site("grip").xpos` is (N, 3), of the field `site_xpos`."""
        return Part(self, "site", self.model.site(name).id)

    def actuator(self, name: str) -> Part:
        """An actuator's part of fields: `sim.actuator("knee").ctrl` is (N,), `.force` that of `actuator_force`."""
        return Part(self, "actuator", self.model.actuator(name).id)

    def joint(self, name: str) -> JointPart:
        """A joint's positions and velocities: `sim.joint("knee").qpos` is (N, 1) for a hinge."""
        return JointPart(self, self.model.joint(name).id)

    def sensor(self, name: str) -> NDArray[np.float64]:
        """(N, dim) a sensor's reading, one substep behind the state; needs "sensordata" in `derived_fields`."""
        sensor = self.model.sensor(name)
        return self.field("sensordata")[:, sensor.adr[0] : sensor.adr[0] + sensor.dim[0]]

    def random(self, size: int) -> NDArray[np.float64]:
        """(N, size) uniform numbers in [0, 1), each environment's from its own `np_random`."""
        generators = self._drawing()
        drawn = np.empty((len(generators), size))
        for generator, row in zip(generators, drawn, strict=True):
            generator.random(out=row)
        return self._spread(drawn)

    def uniform(self, low: float, high: float, size: int) -> NDArray[np.float64]:
        """(N, size) uniform numbers in [low, high), to the bit those of `np_random.uniform`; `random` is faster."""
        return self.draw(lambda generator: generator.uniform(low, high, size))

    def standard_normal(self, size: int) -> NDArray[np.float64]:
        """(N, size) standard normal numbers, each environment's from its own `np_random`."""
        generators = self._drawing()
        drawn = np.empty((len(generators), size))
        for generator, row in zip(generators, drawn, strict=True):
            generator.standard_normal(out=row)
        return self._spread(drawn)

    def random_and_normal(self, num_uniform: int, num_normal: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(N, num_uniform) uniform numbers in [0, 1) and (N, num_normal) standard normal ones.

        One call of each environment's generator gives both: those calls are most of what a reset costs.
        """
        drawn = self.random(num_uniform + 2 * num_normal)
        return drawn[:, :num_uniform], _normal(drawn[:, num_uniform:])

    def draw(self, sample: Callable[[np.random.Generator], Any]) -> NDArray[Any]:
        """(N, ...) `sample(generator)` for each environment and its own generator, stacked."""
        return self._spread(np.stack([sample(generator) for generator in self._drawing()]))

    def _drawing(self) -> list[np.random.Generator]:
        """The generators of the environments that draw."""
        rows = self._rows if self._running is None else self._running
        return (self._generators if rows is None else self._generators[rows]).tolist()

    def _spread(self, drawn: NDArray[Any]) -> NDArray[Any]:
        """(N, ...) what was drawn, and zeros for environments that are about to be reset."""
        if self._running is None:
            return drawn
        spread = np.zeros((self.num, *drawn.shape[1:]), drawn.dtype)
        spread[self._running] = drawn
        return spread

    def commit(self) -> None:
        """Put what hooks wrote to gathered rows back in place; what they read next is fresh."""
        if self._rows is not None:
            if self._writable:
                for name, array in self._arrays.items():
                    if array.flags.writeable:
                        self._physics.field(name)[self._rows] = array
                self._arrays.clear()
            if self._randomizing:
                for name, array in self._parameters.items():
                    self._physics.parameter(name)[self._rows] = array
            self.task.commit()


class _TaskState(Mapping[str, NDArray[Any]]):
    """The rows in play of a task's declared state: the arrays themselves, or copies that `commit` writes back."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], rows: Rows) -> None:
        self._arrays = arrays
        self._rows = rows
        self._copies: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
            raise KeyError(f"The task declared no state {name!r}: call _declare_state({name!r}, ...) in __init__.")
        if self._rows is None:
            return self._arrays[name]
        if name not in self._copies:
            self._copies[name] = self._arrays[name][self._rows]
        return self._copies[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self[name][...] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def commit(self) -> None:
        for name, copy in self._copies.items():
            self._arrays[name][self._rows] = copy
        self._copies.clear()


def _normal(uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, 2 k) uniform numbers as (N, k) standard normal ones, by the transform of Box and Muller (1958)."""
    half = uniform.shape[1] // 2
    radius = np.sqrt(-2 * np.log(1 - uniform[:, :half]))  # 1 - u lies in (0, 1]
    return radius * np.cos(2 * np.pi * uniform[:, half:])
