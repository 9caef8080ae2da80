"""A scene: one compiled model, and the simulations that share it.

    scene = Scene("pendulum", load_model("pendulum.xml"))
    scene.find_actor("pendulum").ctrl[:] = 0.1
    scene.step(10)
    handle = scene.capture_state()
    ...
    scene.restore_state(handle)      # the next step is the one that followed the capture, to the bit

A scene is a simulation of its own (`step`, `time`, `actors`) and the source of
others: `make_batch(n)` gives n simulations that step in one native call,
`acquire_row()` a single one. All share the scene's model; none sees another's
state. Changing `scene.model` after the first simulation was made changes nothing.
"""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass, field
from functools import cached_property

import mujoco
import numpy as np
from mujoco import batch as mujoco_batch
from numpy.typing import NDArray

from superdex.physics.actors import Actor, RomActor, actors_of
from superdex.physics.scene_batch import SceneBatch
from superdex.physics.state import StateHandle, structure_of
from superdex.physics.wrenches import WRENCH_PLUGIN

__all__ = ["Scene"]

_LARGEST_BLOCK = 256
_HOME = "home"


@dataclass(slots=True)
class _Rows:
    """Rows of blocks with the same expanded fields."""

    free: list[SceneBatch] = field(default_factory=list)
    made: int = 0


class Scene:
    """One `mujoco.MjModel` by a name, and its simulations.

    Args:
        name: for messages, and the key under which environments share the scene.
        model: the compiled model.
    """

    # Environments may be made in several threads. Giving back takes no lock: a finalizer may do it at any time.
    _taking = threading.Lock()

    def __init__(self, name: str, model: mujoco.MjModel) -> None:
        self.name = name
        self.model = model
        self.structure = structure_of(model)
        """Digest of the model's structure: snapshots fit scenes of the same digest."""
        flags = mujoco.mjtEnableBit
        self._persistent = bool(model.opt.enableflags & (flags.mjENBL_SLEEP | flags.mjENBL_IPC))
        self._rows: dict[tuple[str, ...], _Rows] = {}

    @cached_property
    def initial_state(self) -> NDArray[np.float64]:
        """(nstate,) the state that a reset gives: keyframe "home" if the model has it, else the model's defaults."""
        data = mujoco.MjData(self.model)
        key = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_KEY, _HOME)
        if key >= 0:
            mujoco.mj_resetDataKeyframe(self.model, data, key)
        spec = mujoco.mjtState.mjSTATE_INTEGRATION.value
        state = np.empty(mujoco.mj_stateSize(self.model, spec))
        mujoco.mj_getState(self.model, data, state, spec)
        state.flags.writeable = False
        return state

    def make_batch(self, count: int, num_threads: int = 0) -> SceneBatch:
        """`count` new simulations in the initial state, stepped on `num_threads` threads (0: one per logical CPU)."""
        rows = mujoco_batch.Batch(self.simulated_model, count, num_threads, self._persistent)
        batch = SceneBatch(self, rows, 0, count)
        batch.reset()
        return batch

    @cached_property
    def simulated_model(self) -> mujoco.MjModel:
        """The model as it is when the first simulation is made; `model` may be changed afterwards."""
        return copy.copy(self.model)

    def acquire_row(self, expanded: tuple[str, ...] = ()) -> SceneBatch:
        """One new simulation in the initial state; `release_row` gives it back.

        Rows come from blocks of growing size, so that thousands of environments
        that step alone do not need a simulator each. `expanded` names model fields
        that get a value of their own, see `SceneBatch.expand`.
        """
        rows = self._rows.setdefault(expanded, _Rows())
        with self._taking:
            if not rows.free:
                block = self.make_batch(min(max(rows.made, 1), _LARGEST_BLOCK), num_threads=1)
                block.expand(expanded)
                rows.made += block.count
                rows.free += [block.row(index) for index in reversed(range(block.count))]
            row = rows.free.pop()
        row.reset()
        row.reset_parameters()
        row.apply_parameters()
        return row

    def release_row(self, row: SceneBatch) -> None:
        """Give back a row that `acquire_row` returned, for others to use."""
        row.untrack()
        self._rows[row.expanded].free.append(row)

    # The scene's own simulation

    @cached_property
    def batch(self) -> SceneBatch:
        """The scene's own simulation as a batch of one row."""
        return self.acquire_row()

    @cached_property
    def actors(self) -> tuple[Actor, ...]:
        """What the scene is made of; their arrays are live views of the scene's own simulation."""
        return actors_of(self.model, self.batch)

    def find_actor(self, name: str) -> Actor:
        """The actor of that name.

        Raises:
            KeyError: if there is none; the message lists those there are.
        """
        for actor in self.actors:
            if actor.name == name:
                return actor
        raise KeyError(f"Scene {self.name!r} has no actor {name!r}; it has {[actor.name for actor in self.actors]}.")

    @property
    def time(self) -> float:
        """Simulated time of the scene's own simulation [s]."""
        return float(self.batch.field("time")[0])

    @property
    def step_count(self) -> int:
        """Substeps that the scene's own simulation has made."""
        return int(self.batch.step_count[0])

    def step(self, nstep: int = 1) -> None:
        """Advance the scene's own simulation by `nstep` time steps of the model."""
        self.batch.step(nstep)

    def forward(self) -> None:
        """Compute derived fields at the present state, without advancing time."""
        self.batch.forward()

    def capture_state(self) -> StateHandle:
        """Snapshot of the scene's own simulation.

        Raises:
            RuntimeError: if the scene holds ROM actors, or its model has sleep or IPC
                enabled, whose state lies outside the snapshot.
        """
        return self.batch.capture(0)

    def restore_state(self, handle: StateHandle) -> None:
        """Put a snapshot back: the next step is bit-identical to the one that followed its capture.

        Raises:
            ValueError: if the snapshot is of a scene of another structure.
        """
        self.batch.restore(0, handle)

    @cached_property
    def computes_wrenches(self) -> bool:
        """Whether steps compute `cfrc_ext` without a sensor, see `compute_wrenches`."""
        return mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_PLUGIN, WRENCH_PLUGIN) >= 0

    @cached_property
    def sensor_kinds(self) -> frozenset[str]:
        """The kinds of sensors in the model: "accelerometer", "framepos", ..."""
        return frozenset(mujoco.mjtSensor(kind).name.removeprefix("mjSENS_").lower() for kind in self.model.sensor_type)

    @property
    def has_rom_actors(self) -> bool:
        """Whether the model holds reduced-order deformable bodies."""
        return bool((self.model.flex_interp > 0).any())

    def require_capturable(self) -> None:
        """Raise RuntimeError unless a snapshot holds all that decides this scene's future."""
        if self.has_rom_actors:
            names = [actor.name for actor in self.actors if isinstance(actor, RomActor)]
            raise RuntimeError(
                "State capture is not supported for scenes with ROM actors."
                f" Scene {self.name!r} holds {names}; run such environments with use_shared_scenes=False."
            )
        if self._persistent:
            raise RuntimeError(
                "State capture is not supported for scenes with sleep or IPC enabled:"
                f" scene {self.name!r} keeps part of its state outside the snapshot. Disable the flag in its model."
            )

    def __repr__(self) -> str:
        return f"Scene({self.name!r}, nq={self.model.nq}, nv={self.model.nv}, nu={self.model.nu})"
