"""Checks of what any caller relies on: it runs, its results fit its spaces, and it can be pickled."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import cloudpickle
import numpy as np
from gymnasium.utils.env_checker import check_env

from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.envs.spaces import FlatSpace
from superdex.lab.gym.envs.task_batch import DIVERGED
from superdex.lab.gym.testing.outcomes import Outcome, failed, passed, skipped, warned
from superdex.lab.gym.testing.subject import Subject, actions_of, bounds_of

__all__ = ["check_derived_fields", "check_gymnasium", "check_pickling", "check_runs", "check_spaces"]

# Gymnasium's advice that does not concern us: unbounded observations are common in robotics, tasks scale their
# actions as they like, and there is no spec for a class.
_BENIGN = (
    "is -infinity. This is probably too low",
    "is infinity. This is probably too high",
    "recommend using a symmetric and normalized space",
    "Not able to test alternative render modes",
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def check_runs(subject: Subject) -> Outcome:
    """The environment is made, reset and stepped, alone and in a batch of which some are reset."""
    fault = subject.fault
    if fault is None:
        return passed("made, reset and stepped, for 1 row, 3 rows, and a reset of 1 of 3")
    return failed(
        str(fault),
        f"Mend {fault.part or 'the line that raises'}: it gets arrays (N, ...), and must work for any N and in any"
        " order of calls.",
    )


def check_derived_fields(subject: Subject) -> Outcome:
    """Every derived field that a hook reads is declared."""
    fault = subject.fault
    if fault is None:
        declared = ", ".join(subject.make().derived_fields)
        return passed(f"every field that the hooks read is had; declared: {declared or 'none'}")
    if not fault.is_of_derived_field:
        return skipped("the task does not run; see runs")
    return failed(str(fault), "List the field in the class's `derived_fields`, or do as the message says.")


def check_spaces(subject: Subject) -> Outcome:
    """Observations are finite and in their space, by part, for one row and several, with actions at their bounds."""
    fault = subject.fault
    if fault is not None:
        if not fault.is_of_results or fault.is_of_derived_field:
            return skipped("the task does not run; see runs")
        return failed(
            str(fault), "Return what was declared: arrays with a leading axis of N rows, under the same keys."
        )
    diverged = False
    for num_envs in (1, 3):
        with subject.vector(num_envs) as envs:
            inner: list[Any] = [env.unwrapped for env in envs.envs]
            findings: list[Outcome] = []
            for env in inner:
                env._make_observation = partial(_looked_at, env, env._make_observation, findings)
            envs.reset(seed=1)
            for actions in _extreme_actions(envs.single_action_space, num_envs):
                if findings:
                    return findings[0]
                result = envs.step(actions)
                if not np.isfinite(result.reward).all():
                    return failed(
                        f"the reward is {result.reward[~np.isfinite(result.reward)][0]}",
                        "Return finite terms from _compute_reward_terms: look for a division by zero or a logarithm.",
                    )
                diverged |= DIVERGED in result.info.get("terminated_reason", ())
            if findings:
                return findings[0]
    if diverged:
        return warned(
            "results fit, but an action within its bounds makes the simulation diverge",
            "Weaken the actuators, or raise damping or simulation_frequency, until physics is stable.",
        )
    return passed("finite, of the declared shape, kind and bounds, for 1 and 3 rows, actions at their bounds")


def check_gymnasium(subject: Subject) -> Outcome:
    """Gymnasium's own checker has no complaint."""
    env = subject.make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check_env(env, skip_render_check=env.render_mode is None)
        except AssertionError as error:
            return failed(
                f"check_env: {_one_line(error)}",
                "See gymnasium.utils.env_checker.check_env, which says what it expects.",
            )
    texts = [_one_line(warning.message) for warning in caught if not issubclass(warning.category, RuntimeWarning)]
    telling = [text for text in dict.fromkeys(texts) if not any(benign in text for benign in _BENIGN)]
    if telling:
        return warned("check_env warns: " + "; ".join(telling), "Gymnasium's users may rely on it: do as it says.")
    return passed("gymnasium.utils.env_checker.check_env has no complaint")


def check_pickling(subject: Subject) -> Outcome:
    """Class, configuration and factory survive cloudpickle, as workers need."""
    things: Mapping[str, Any] = {
        "configuration": subject.cfg,
        "class": subject.env_class,
        "factory": partial(subject.env_class, subject.cfg),
    }
    for name, thing in things.items():
        try:
            cloudpickle.loads(cloudpickle.dumps(thing))
        except Exception as error:
            return failed(
                f"the {name} cannot be pickled: {_one_line(error)}",
                "Keep locks, files, generators and models out of what the class refers to, and define it at the top"
                " level of a module.",
            )
    return passed("class, configuration and factory survive cloudpickle")


def _extreme_actions(space: Any, num_envs: int) -> Iterable[np.ndarray]:
    """(num_envs, size) actions: drawn, all at the lower bound, all at the upper, by turns, and beyond."""
    low, high = bounds_of(space)
    keys = range(num_envs)
    yield actions_of(space, keys, 0)
    for row in (low, high, np.where(np.arange(low.size) % 2, low, high), high + (high - low)):
        for _ in range(2):
            yield np.tile(row, (num_envs, 1)).astype(space.dtype)
    yield actions_of(space, keys, 1)


def _looked_at(env: MochiEnv, original: Any, findings: list[Outcome], sim: Any) -> Any:
    """The observation hook; what is wrong with an observation is added to `findings`."""
    observation, info = original(sim)
    layout = env.observation_layout
    if observation.keys() == layout.parts.keys():
        findings += filter(None, (_misfit(layout, key, np.asarray(value)) for key, value in observation.items()))
    return observation, info


def _misfit(layout: FlatSpace, key: str, value: np.ndarray) -> Outcome | None:
    box, part = layout.parts[key], f"observation {key!r}"
    if not np.can_cast(value.dtype, box.dtype, "same_kind"):
        return failed(
            f"{part} is declared as {box.dtype} but computed as {value.dtype}, which does not convert to it",
            f"Declare the Box of {key!r} with dtype {value.dtype}, or convert in _make_observation.",
        )
    numbers = value.astype(box.dtype)
    if not np.isfinite(numbers).all():
        return failed(
            f"{part} holds {numbers[~np.isfinite(numbers)][0]}",
            "Keep observations finite: look for a division by zero, a root or a logarithm in _make_observation.",
        )
    outside = (numbers < box.low) | (numbers > box.high)
    if outside.any():
        entry = tuple(np.argwhere(outside)[0])
        bounds = f"[{box.low[entry[1:]]}, {box.high[entry[1:]]}]"
        return failed(
            f"{part} is {numbers[entry]}, outside its bounds {bounds}",
            f"Widen the Box of {key!r} in _observation_parts, or clip the value in _make_observation.",
        )
    return None


def _one_line(text: object) -> str:
    return " ".join(_ANSI.sub("", str(text)).removeprefix("WARN: ").split())
