"""Checks of what happens when an environment is taken up again: from a snapshot, or after its simulation failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from superdex.lab.gym.envs.task_batch import DIVERGED
from superdex.lab.gym.testing.comparing import difference, rollout_difference
from superdex.lab.gym.testing.faults import Fault
from superdex.lab.gym.testing.outcomes import Outcome, failed, passed, skipped
from superdex.lab.gym.testing.subject import Subject, actions_of, rollout, rollout_alone

__all__ = ["check_capture", "check_divergence"]

_KEYS = (21, 22, 23)
_VICTIM = 1
_BEFORE, _AFTER = 6, 8
_EPISODE = 5
"""Steps of an episode, so that resets, and one that is pending, fall around the snapshot."""
_HUGE = 1e12
_LIMIT = 1e10  # mjMAXVAL


def check_capture(subject: Subject) -> Outcome:
    """A restored state continues to the bit: in the same environment, a new one, and a batch."""
    env, fresh = subject.make(), subject.make()
    try:
        env.scene.require_capturable()
    except RuntimeError as error:
        return skipped(str(error))
    layout = env.observation_layout
    for _ in rollout_alone(env, _KEYS[0], _BEFORE):
        pass
    env.reset()
    env.step(actions_of(env.action_space, _KEYS[:1], 0)[0])
    try:
        state = env.capture_state()
    except (TypeError, RuntimeError) as error:
        return failed(
            f"capture_state raises {Fault.of(error, subject.env_class).cause}",
            "Leave np_random to reset(seed=...), keep the configuration to plain values and the task's state declared.",
        )
    expected = list(_continued(env))
    with subject.vector(1) as single:
        for where, again in (("the same environment", env), ("a new environment", fresh), ("a batch of one", single)):
            again.restore_state(state)
            results = _first_rows(_continued(again)) if again is single else _continued(again)
            found = rollout_difference(results, expected, layout)
            if found:
                return _differs(where, found)
    return _check_batch(subject) or passed("a restored state continues to the bit, alone, made anew and in a batch")


def _check_batch(subject: Subject) -> Outcome | None:
    """A batch's state, with resets to come, put back into it and into a new one."""
    with (
        subject.vector(3, steps_per_episode=_EPISODE) as envs,
        subject.vector(3, num_threads=2, steps_per_episode=_EPISODE) as fresh,
    ):
        for _ in rollout(envs, _KEYS, _BEFORE, restart=2):
            pass
        state = envs.capture_state()
        expected = list(_continued(envs))
        for where, again in (("the same batch", envs), ("a new batch", fresh)):
            again.restore_state(state)
            found = rollout_difference(_continued(again), expected, envs.envs[0].unwrapped.observation_layout)  # type: ignore[attr-defined]
            if found:
                return _differs(where, found)
    return None


def _continued(env: Any) -> Iterator[tuple[Any, ...]]:
    """What the next steps return, up to the first end for an environment alone."""
    batched = hasattr(env, "num_envs")
    keys = _KEYS[: env.num_envs] if batched else _KEYS[:1]
    space = env.single_action_space if batched else env.action_space
    for step in range(_AFTER):
        actions = actions_of(space, keys, _BEFORE + step)
        result = tuple(env.step(actions if batched else actions[0]))
        yield result
        if not batched and (result[2] or result[3]):
            return


def _first_rows(results: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Results of a batch of one as an environment alone returns them, up to its first end."""
    for observation, reward, terminated, truncated, info in results:
        inner = {name: value[0] for name, value in info.items() if not name.startswith("_") and info[f"_{name}"][0]}
        info = {name: bool(value) if isinstance(value, np.bool_) else value for name, value in inner.items()}
        yield observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), info
        if terminated[0] or truncated[0]:
            return


def _differs(where: str, found: str) -> Outcome:
    return failed(
        f"a state restored into {where} continues differently: {found}",
        "Declare all that the task keeps from step to step by _declare_state, and keep it in sim.task only.",
    )


def check_divergence(subject: Subject) -> Outcome:
    """An environment whose simulation fails ends its episode, alone and cleanly."""
    env = subject.make()
    if env.scene.model.nv == 0:
        return skipped("the model has no velocities")
    with subject.vector(3) as undisturbed, subject.vector(3) as envs:
        for each in (undisturbed, envs):
            for _ in rollout(each, _KEYS, 2):
                pass
        physics = envs.envs[_VICTIM].unwrapped.batch.physics  # type: ignore[attr-defined]
        physics.field("qvel")[0] = _HUGE
        actions = actions_of(envs.single_action_space, _KEYS, 2)
        result, expected = envs.step(actions), undisturbed.step(actions)
        outcome = _ends_well(result, physics) or _unmoved(result, expected)
        if outcome is not None:
            return outcome
        actions = actions_of(envs.single_action_space, _KEYS, 3)
        result, expected = envs.step(actions), undisturbed.step(actions)
        outcome = _unmoved(result, expected)
        if outcome is not None:
            return outcome
        found = rollout_difference(
            rollout(envs, _KEYS, 3), list(rollout(undisturbed, _KEYS, 3)), env.observation_layout
        )
    if found:
        return failed(
            f"after a divergence and a reset, the rollout is not that of a new environment: {found}",
            "Let _reset set all that the episode depends on, and declare state by _declare_state.",
        )
    return passed(f"a row at {_HUGE:g} ends its episode; its observation is finite, its neighbours are as they were")


def _ends_well(result: Any, physics: Any) -> Outcome | None:
    if not result.terminated[_VICTIM]:
        if np.abs(physics.field("qvel")).max() < _LIMIT:
            return passed("the hooks overwrite velocities, so that a bad one does not last")
        return failed(
            "the simulation diverges, but the episode does not end",
            "Do not override step(); the base class ends the episode and puts the simulation back.",
        )
    reason = result.info["terminated_reason"][_VICTIM]
    if reason != DIVERGED:
        return failed(
            f"terminated_reason is {reason!r} instead of {DIVERGED!r}", "Leave `terminated_reason` to the base class."
        )
    values: Sequence[tuple[str, np.ndarray]] = (("observation", result.observation), ("reward", result.reward))
    for name, value in values:
        if not np.isfinite(value[_VICTIM]).all():
            return failed(
                f"after a divergence, the {name} is not finite",
                "The hooks see the initial state then, with declared state at zero: let them work there, without a"
                " division by declared state.",
            )
    return None


def _unmoved(result: Any, expected: Any) -> Outcome | None:
    """The victim's neighbours have the results of an undisturbed batch."""
    others = np.arange(len(_KEYS)) != _VICTIM
    for name in ("observation", "reward", "terminated", "truncated"):
        found = difference(getattr(result, name)[others], getattr(expected, name)[others], name)
        if found:
            return failed(
                f"when environment {_VICTIM} diverges, its neighbours change: {found}",
                "Let no hook read another row: no mean, sum, sort or maximum over axis 0.",
            )
    return None
