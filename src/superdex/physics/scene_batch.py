"""Many simulations of one scene, stepped natively.

    batch = scene.make_batch(1024, num_threads=2)
    batch.track("xpos")                      # derived fields are copied out on request
    batch.field("ctrl")[:] = controls        # state fields are live views, (n, ...)
    batch.step(num_substeps=5)
    heights = batch.field("xpos")[:, 1, 2]   # one substep behind qpos, as after mj_step

Each simulation is a row: its snapshot. A call restores each row into a
simulator, runs, and captures it again, on native threads with the GIL released;
results do not depend on the number of threads or on the other rows.

A `SceneBatch` is a run of consecutive rows of one `mujoco.batch.Batch`, the
whole of it or a part, so that thousands of environments that are stepped alone
can share one. If it has several threads, a forked child cannot use it (RuntimeError).
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from mujoco import batch as mujoco_batch
from numpy.typing import NDArray

from superdex.physics.forking import keep_in_forks, require_same_process
from superdex.physics.state import StateHandle

if TYPE_CHECKING:
    from superdex.physics.scene import Scene

__all__ = ["STATE_FIELDS", "Rows", "SceneBatch"]

Rows = NDArray[np.int64] | None
"""Rows in play: sorted indices, or None for all."""

STATE_FIELDS = frozenset(
    "time qpos qvel act history qacc_warmstart ctrl qfrc_applied xfrc_applied eq_active mocap_pos mocap_quat"  # noqa: SIM905
    " userdata plugin_state plastic".split()
)
"""The fields that make up a row; all others are derived from it."""

_RNE_SENSORS = ("accelerometer", "force", "torque", "framelinacc", "frameangacc")
_SUBTREE_SENSORS = ("subtreelinvel", "subtreeangmom")
# Fields that mj_step does not always compute, and the sensors for whose sake it does. Without one, a simulator that
# serves many rows would hand out another row's value.
_COMPUTED_FOR_SENSORS = {
    "cacc": _RNE_SENSORS,
    "cfrc_int": _RNE_SENSORS,
    "cfrc_ext": _RNE_SENSORS,
    "subtree_linvel": _SUBTREE_SENSORS,
    "subtree_angmom": _SUBTREE_SENSORS,
    "qfrc_inverse": (),
    "solver_nnz": (),  # nor is it where there is no constraint
}

_BAD_STATE = slice(mujoco.mjtWarning.mjWARN_BADQPOS.value, mujoco.mjtWarning.mjWARN_BADCTRL.value + 1)


class SceneBatch:
    """`count` rows of `batch`, from row `start`; made by `Scene.make_batch` and `Scene.acquire_row`."""

    def __init__(self, scene: Scene, batch: mujoco_batch.Batch, start: int, count: int) -> None:
        self.scene = scene
        self.count = count
        self.start = start
        self._batch = batch
        self._threaded = batch.nthread > 1
        self._owner = os.getpid()
        if self._threaded:
            keep_in_forks(batch)
        self._persistent = batch.persistent
        self._tracked: set[str] = set()
        self._of_steps: set[str] = set()  # tracked fields that forward() does not compute
        self._parameters: dict[str, np.ndarray] = {}
        self._span = slice(start, start + count)
        self._whole = count == batch.nsim
        self._fields: dict[str, np.ndarray] = {}
        self.state: NDArray[np.float64] = batch.state[self._span]
        """(count, nstate) the rows."""
        self.step_count = np.zeros(count, np.int64)
        """(count,) substeps since each row was reset."""
        # MuJoCo's warnings, last info and count of each kind: (count, mjNWARNING, 2)
        self._warnings = batch.warning[self._span]
        # qpos and qvel, which follow the time: (count, nq + nv)
        self._motion = self.state[:, 1 : 1 + scene.model.nq + scene.model.nv]

    def row(self, index: int) -> SceneBatch:
        """The batch of one row that shares row `index` with this one."""
        row = SceneBatch(self.scene, self._batch, self.start + index, 1)
        row._owner = self._owner
        row.step_count = self.step_count[index : index + 1]
        row._tracked, row._of_steps = set(self._tracked), set(self._of_steps)
        row._parameters = {name: values[index : index + 1] for name, values in self._parameters.items()}
        return row

    def track(self, names: Iterable[str]) -> None:
        """Have derived fields copied out of every following call.

        Raises:
            ValueError: if a name is no field of `mujoco.MjData` that can be had per
                simulation, or the model lacks the sensor without which MuJoCo does
                not compute the field.
        """
        for name in names:
            sensors = _COMPUTED_FOR_SENSORS.get(name)
            if sensors is not None and self.scene.sensor_kinds.isdisjoint(sensors):
                if name != "cfrc_ext" or not self.scene.computes_wrenches:
                    raise ValueError(self._not_computed(name, sensors))
                self._of_steps.add(name)
            self._batch.bind(name)
            self._tracked.add(name)

    def untrack(self) -> None:
        """Refuse derived fields again until they are tracked."""
        self._tracked.clear()
        self._of_steps.clear()
        self._fields.clear()

    def field(self, name: str) -> np.ndarray:
        """(count, ...) a field of every row by its name in `mujoco.MjData`.

        State fields are live views that may be written. Derived fields are read-only,
        hold what the last call on the row computed, and must be tracked.
        """
        value = self._fields.get(name)
        if value is None:
            if name not in STATE_FIELDS and name not in self._tracked:
                raise AttributeError(self._not_tracked(name))
            value = self._fields[name] = self._batch.bind(name)[self._span]
        return value

    def expand(self, names: Iterable[str]) -> None:
        """Give model fields a value of their own in every simulation, at first the model's.

        Raises:
            ValueError: if a name is no field of `mujoco.MjModel` (or `opt.<field>` of its
                options) that can differ between simulations.
        """
        for name in names:
            if name not in self._parameters:
                self._parameters[name] = self._batch.expand(name)[self._span]

    @property
    def expanded(self) -> tuple[str, ...]:
        """The model fields that have a value of their own in every simulation."""
        return tuple(self._parameters)

    def parameter(self, name: str) -> np.ndarray:
        """(count, ...) the live values of an expanded model field; after writing, call `apply_parameters`."""
        if name not in self._parameters:
            known = ", ".join(self._parameters) or "none"
            raise AttributeError(
                f"{name!r} has the model's value in every simulation; those of their own are: {known}. List it in the"
                f" task's `randomized_fields` (or call expand([{name!r}]) on a batch of your own)."
            )
        return self._parameters[name]

    def reset_parameters(self, rows: Rows = None) -> None:
        """Give the expanded fields of rows the model's values again; then call `apply_parameters`."""
        for name, values in self._parameters.items():
            values[self._select(rows)] = _model_value(self._batch.model, name)

    def apply_parameters(self, rows: Rows = None) -> None:
        """Compute the constants that follow from the expanded fields of rows (`mj_setConst`)."""
        if self._parameters:
            self._batch.set_const(self._ids(rows))

    def step(self, num_substeps: int = 1, rows: Rows = None) -> None:
        """Advance rows by `num_substeps` times the model's time step.

        Raises:
            ValueError: if `num_substeps` is below 1.
        """
        if num_substeps < 1:
            raise ValueError(f"A simulation advances by at least 1 step, got {num_substeps}.")
        self._batch.step(self._ids(rows), num_substeps)
        self.step_count[self._select(rows)] += num_substeps

    def forward(self, rows: Rows = None) -> None:
        """Compute the tracked fields at the present state of rows (`mj_forward`); those of steps only are zero."""
        self._batch.forward(self._ids(rows))
        for name in self._of_steps:
            self.put_derived(name, 0.0, rows)

    def reset(self, rows: Rows = None) -> None:
        """Put rows into the scene's initial state; tracked fields stay as they are until the next call."""
        if self._persistent:
            self._batch.reset(self._ids(rows), stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        select = self._select(rows)
        self.state[select] = self.scene.initial_state
        self.step_count[select] = 0
        self._warnings[select] = 0

    def diverged(self) -> Rows:
        """The rows whose simulation has gone bad since they were last reset, or None if there are none.

        Bad is what MuJoCo warns of (not finite or above 1e10, `mjMAXVAL`), and a
        position or velocity that is not finite after the last substep, of which
        MuJoCo would warn in the next.
        """
        # a sum is finite exactly if no addend is infinite or NaN, short of an overflow, which the mask below sorts out
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.count_nonzero(self._warnings) and math.isfinite(self._motion.sum()):
                return None
        bad = self._warnings[:, _BAD_STATE, 1].any(axis=1) | ~np.isfinite(self._motion).all(axis=1)
        return np.flatnonzero(bad) if bad.any() else None

    def capture(self, index: int) -> StateHandle:
        """The snapshot of one row.

        Raises:
            RuntimeError: if the scene's state cannot be captured (ROM actors, sleep).
        """
        self.scene.require_capturable()
        state = self.state[index].copy()
        state.flags.writeable = False
        return StateHandle(self.scene.name, self.scene.structure, state, int(self.step_count[index]))

    def restore(self, index: int, handle: StateHandle) -> None:
        """Put a snapshot into one row and compute the tracked fields there.

        Raises:
            ValueError: if the snapshot is of a scene of another structure.
        """
        if handle.structure != self.scene.structure:
            raise ValueError(
                f"A snapshot of scene {handle.scene_name!r} cannot be restored into scene {self.scene.name!r}: their"
                " models differ in structure. Restore it into a scene that was built like the one it was taken from."
            )
        rows = np.array([index])
        self.reset(rows)
        self.state[index] = handle.state
        if self._tracked:
            self.forward(rows)
        self.step_count[index] = handle.step_count

    def put_derived(self, name: str, values: np.ndarray | float, rows: Rows = None) -> None:
        """Let a tracked field of rows read `values`, (N, ...), until the next call on each."""
        field = self._batch.bind(name)
        field.flags.writeable = True
        field[self._span][self._select(rows)] = values
        field.flags.writeable = False

    def _select(self, rows: Rows) -> slice | NDArray[np.int64]:
        return slice(None) if rows is None else rows

    @cached_property
    def _all_ids(self) -> NDArray[np.int32]:
        return np.arange(self.start, self.start + self.count, dtype=np.int32)

    def _ids(self, rows: Rows) -> np.ndarray | None:
        """Rows of this batch as simulations of the underlying one, which is about to be used."""
        if self._threaded:
            require_same_process(self._owner, f"batch of scene {self.scene.name!r}")
        if rows is None:
            return None if self._whole else self._all_ids
        return rows + self.start if self.start else rows

    def _not_computed(self, name: str, sensors: tuple[str, ...]) -> str:
        text = f"Scene {self.scene.name!r} cannot give {name!r}: its steps do not always compute it."
        if sensors:
            text += f" Add one of these sensors to the model: {', '.join(sensors)}."
        if name == "cfrc_ext":
            text += " Or have it computed without one: load_model(path, superdex.physics.compute_wrenches)."
        return text

    def _not_tracked(self, name: str) -> str:
        if name in mujoco_batch.DATA_FIELDS:
            return (
                f"{name!r} is a derived field that is not tracked: list it in the task's `derived_fields`"
                f" (or call track([{name!r}]) on a batch of your own) so that it is copied out of every step."
            )
        close = difflib.get_close_matches(name, mujoco_batch.DATA_FIELDS, n=3)
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        return f"{name!r} is not a field of a simulation.{hint}"


def _model_value(model: mujoco.MjModel, name: str) -> np.ndarray:
    return getattr(model.opt, name[4:]) if name.startswith("opt.") else getattr(model, name)
