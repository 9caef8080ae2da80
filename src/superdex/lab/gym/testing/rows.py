"""Check that no hook reads or writes another row.

A batch of six rows runs again with three of its rows replaced (other seeds, other
actions, pushed about), and with its rows in another order. What the hooks make of a row that
stayed must stay, to the bit. Every hook's effects are recorded as it returns, so
the first difference names the hook. Differences of rounding are left to the check of
batches: matrix products round by the number of rows, and by a row's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from superdex.lab.gym.envs import MochiEnv, Sim
from superdex.lab.gym.testing.comparing import is_rounding
from superdex.lab.gym.testing.faults import HOOKS
from superdex.lab.gym.testing.outcomes import Outcome, failed, passed, skipped
from superdex.lab.gym.testing.subject import Subject, rollout

__all__ = ["check_rows"]

_KEYS = (31, 32, 33, 34, 35, 36)
_OTHERS = (41, 42, 43, 44, 45, 46)
_ORDER = (3, 5, 0, 2, 4, 1)
_NUM_STEPS = 8
_PUSH = 3.0
"""Velocity that replaced rows get in every other step [m/s, rad/s]."""
_STATE = ("qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat", "eq_active", "time")

_DRAWN_REMEDY = (
    "Give each row values of its own: draw with sim.random, sim.standard_normal or sim.draw (never self.np_random,"
    " which is one row's), and write whole columns: sim.qpos[:, 2] = ..."
)
_REMEDIES = {
    "_randomize": _DRAWN_REMEDY,
    "_reset": _DRAWN_REMEDY,
    "_apply_action": "Compute each row's controls from the same row of action and sim: reduce over axis=-1, not over"
    " axis 0, and index rows by `:` only.",
}
_REMEDY = "Compute each row from itself: reduce over axis=-1, not over axis 0; do not sort, shift or number rows."


def check_rows(subject: Subject) -> Outcome:
    """No hook's result for a row depends on the other rows, or on the row's place."""
    with subject.vector(2) as envs:
        inner = envs.inner_backends[0]
    if inner.kind != "native":
        return skipped(f"hooks get one environment at a time: {inner.reason}")
    expected = _recorded(subject, _KEYS)
    every = range(len(_KEYS))
    for kept in (every[::2], every[1::2]):
        keys = [_KEYS[row] if row in kept else _OTHERS[row] for row in every]
        pushed = [row for row in every if row not in kept]
        found = _first_difference(_recorded(subject, keys, pushed), expected, {row: row for row in kept})
        if found is not None:
            return _mixes(*found, "changes with its neighbours' seeds, states and actions")
    actual = _recorded(subject, [_KEYS[row] for row in _ORDER])
    found = _first_difference(actual, expected, dict(enumerate(_ORDER)))
    if found is not None:
        return _mixes(*found, "changes with the row's place in the batch")
    return passed("each row depends on itself alone: other neighbours and another order of rows change nothing")


@dataclass
class _Event:
    """What a hook did to each row."""

    hook: str
    values: dict[str, np.ndarray] = field(default_factory=dict)
    """(N, ...) by what they are."""


def _recorded(subject: Subject, keys: Sequence[int], pushed: Sequence[int] = ()) -> list[_Event]:
    """The events of a rollout in which no episode ends, so that all rows are in play in each."""
    events: list[_Event] = []
    with subject.vector(len(keys), steps_per_episode=-1) as envs:
        task: Any = envs.envs[0].unwrapped
        for hook in HOOKS:
            setattr(task, hook, partial(_called, task, hook, getattr(task, hook), len(keys), events))
        for number, _ in enumerate(rollout(envs, keys, _NUM_STEPS)):
            for row in pushed if number % 2 else ():
                velocity: np.ndarray = envs.envs[row].unwrapped.batch.physics.field("qvel")  # type: ignore[attr-defined]
                velocity += np.random.default_rng((number, row)).normal(0, _PUSH, velocity.shape)
    return events


def _called(task: MochiEnv, hook: str, original: Any, num: int, events: list[_Event], *args: Any) -> Any:
    """Call a hook and record what it did, if all rows are in play."""
    result = original(*args)
    if hook == "_check_stop_criteria":
        result = list(result)
    event = _Event(hook)
    if isinstance(args[0], Sim):
        event.values.update(_effects(task, hook, args[0]))
    event.values.update(_results(hook, result))
    lengths = {value.shape[0] for value in event.values.values() if value.ndim}
    if lengths <= {num}:
        events.append(event)
    # a stop would be reset, and rows in play with it
    return [] if hook == "_check_stop_criteria" else result


def _effects(task: MochiEnv, hook: str, sim: Sim) -> dict[str, np.ndarray]:
    """What a hook may have written."""
    if hook == "_randomize":
        return {f"sim.parameter({name!r})": np.array(sim.parameter(name)) for name in task.randomized_fields}
    values = {f"sim.task[{name!r}]": np.array(value) for name, value in sim.task.items()}
    if hook in ("_reset", "_apply_action"):
        values.update((f"sim.{name}", np.array(sim.field(name))) for name in _STATE)
    return values


def _results(hook: str, result: Any) -> dict[str, np.ndarray]:
    """What a hook returned, as far as it is of the declared kind; the base class refuses anything else."""
    if hook == "_make_observation":
        observation, info = result
        values = {f"observation {name!r}": value for name, value in observation.items()}
        values.update((f"info {name!r}", value) for name, value in info.items())
    elif hook == "_make_step_info":
        values = {f"info {name!r}": value for name, value in result.items()}
    elif hook == "_total_reward":
        values = {"reward": result}
    elif hook == "_compute_reward_terms":
        values = {f"reward term {name!r}": value for name, value in result.items()}
    elif hook == "_check_stop_criteria":
        values = {f"stop {number} ({stop.reason!r})": stop.mask for number, stop in enumerate(result)}
    else:
        values = {}
    return {name: np.array(value) for name, value in values.items()}


def _first_difference(
    actual: Sequence[_Event], expected: Sequence[_Event], places: dict[int, int]
) -> tuple[str, str, int] | None:
    """Hook, value and row of the first row `places[place]` that is another at `place`."""
    for one, other in zip(actual, expected, strict=False):
        for name in dict.fromkeys((*one.values, *other.values)):
            for place, row in places.items():
                a, e = _entry(one, name, place), _entry(other, name, row)
                if a is not None and e is not None:
                    same = np.array_equal(a, e) or is_rounding(a, e)
                else:  # a mask may be given only if it is True somewhere
                    same = one.hook == "_check_stop_criteria" and not np.any(e if a is None else a)
                if not same:
                    return one.hook, name, row
    return None


def _entry(event: _Event, name: str, row: int) -> np.ndarray | None:
    return event.values[name][row] if name in event.values else None


def _mixes(hook: str, name: str, row: int, how: str) -> Outcome:
    return failed(f"{hook} mixes rows: {name} of row {row} {how}", _REMEDIES.get(hook, _REMEDY))
