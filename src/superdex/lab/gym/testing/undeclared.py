"""Check that hooks keep no state but what they declare.

An attribute is one for the whole batch, is not reset with an episode, and is no
part of a snapshot. What is computed once and stays (`functools.cached_property`,
a lookup of ids) is fine, as long as it does not follow from what the first rows
happened to be.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

from superdex.lab.gym.testing.models import model_differences
from superdex.lab.gym.testing.outcomes import Outcome, failed, passed, skipped
from superdex.lab.gym.testing.subject import Subject, rollout
from superdex.lab.gym.testing.watching import GENERATORS, Watch

__all__ = ["check_undeclared_state"]

_RUNS = ((51, 52, 53), (61, 62, 63))
_WARM_UP = 6
_NUM_STEPS = 16


def check_undeclared_state(subject: Subject) -> Outcome:
    """No attribute, global variable or generator changes in a hook; nor does the model."""
    try:
        env = subject.make()  # keeps the scene, and its model, alive
    except Exception:
        return skipped("the environment cannot be made; see runs")
    model = copy.copy(env.scene.model)
    first = _watched(subject, _RUNS[0])
    for watch in first:
        for place, calls in watch.changes.items():
            late = [hook for call, hook in calls if call > watch.warm or place in GENERATORS]
            if late:
                return _changes(place, late[0])
    fields = model_differences(model, env.scene.model)
    if fields:
        return failed(
            f"the hooks change the model, which all environments of a scene share: {', '.join(fields)}",
            "Write to sim (qpos, ctrl, xfrc_applied, ...), and build what differs in _build_model.",
        )
    other = _watched(subject, _RUNS[1])
    for one, two in zip(first, other, strict=True):
        for place, calls in one.changes.items():
            if one.seen.get(place) != two.seen.get(place):
                return _changes(place, calls[0][1])
    if subject.fault is not None:
        return skipped("the task does not run; see runs")
    return passed("no hook changes an attribute, a global variable, a global generator or the model")


class _Watched(Watch):
    warm: float = math.inf
    """The last call of the warm-up."""


def _watched(subject: Subject, keys: Sequence[int]) -> list[_Watched]:
    """A watch for each environment of a batch that was reset, in whole and in part, and stepped, as far as it went."""
    watches: list[_Watched] = []
    try:
        with subject.vector(len(keys)) as envs:
            watches += [_Watched(env.unwrapped) for env in envs.envs]  # type: ignore[arg-type]
            for _ in rollout(envs, keys, _WARM_UP, restart=3):
                pass
            for watch in watches:
                watch.warm = watch.num_calls
            for _ in rollout(envs, keys, _NUM_STEPS, restart=9):
                pass
    except Exception:
        return watches  # of what a task raises, check_runs tells
    return watches


def _changes(place: str, hook: str) -> Outcome:
    if place in GENERATORS:
        return failed(
            f"{hook} draws from {place}",
            "Draw with sim.random, sim.standard_normal or sim.draw, which use each environment's own generator.",
        )
    name = place.removeprefix("self.") if place.startswith("self.") else "name"
    return failed(
        f"{hook} keeps state in {place}, which the whole batch shares and no snapshot holds",
        f"If it is kept from step to step, declare it by self._declare_state({name!r}, shape) in __init__ and use"
        f" sim.task[{name!r}], (N, *shape); otherwise make it a local variable.",
    )
