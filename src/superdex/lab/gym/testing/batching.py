"""Checks that a rollout is the same whenever and however it is stepped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from superdex.lab.gym.testing.comparing import rollout_difference
from superdex.lab.gym.testing.outcomes import Outcome, failed, passed
from superdex.lab.gym.testing.subject import Subject, rollout, rollout_alone
from superdex.lab.gym.vector.hybrid import HybridVectorEnv

__all__ = ["check_batching", "check_determinism", "check_workers"]

_KEYS = (11, 12, 13, 14, 15)
_NUM_STEPS = 24
_RESTART = 3
_EPISODE = 7
"""Steps of an episode, so that many resets fall into a rollout; environment 1, reset by itself, gets out of phase."""


def check_determinism(subject: Subject) -> Outcome:
    """The same seed and actions give the same rollout, and another seed another one if there is noise."""
    env, other = subject.make(), subject.make()
    expected = list(rollout_alone(env, 1, _NUM_STEPS))
    for which, again in (("the same environment", env), ("a new environment", other)):
        found = rollout_difference(rollout_alone(again, 1, _NUM_STEPS), expected, env.observation_layout)
        if found:
            return failed(
                f"the same seed and actions give another rollout in {which}: {found}",
                "Hooks depend on something besides their arguments, self.cfg and the model: a clock, a generator made"
                " in a hook, or what another module keeps. Draw with sim.random, sim.standard_normal or sim.draw.",
            )
    if subject.cfg.reset_noise_scale == 0:
        return passed("the same seed and actions give the same rollout")
    starts = set()
    for seed in range(4):
        env.reset(seed=seed)
        starts.add(env.batch.physics.state.tobytes() + b"".join(a.tobytes() for a in env.batch.task_state.values()))
    if len(starts) == 1:
        return failed(
            f"reset_noise_scale is {subject.cfg.reset_noise_scale:g}, but every seed gives the same initial state",
            "Call super()._reset(sim, options), or draw with sim.random, sim.standard_normal or sim.draw in _reset.",
        )
    return passed("the same seed and actions give the same rollout, other seeds other ones")


def check_batching(subject: Subject) -> Outcome:
    """Environments alone and a batch give the same rollout to the bit."""
    layout, kind = subject.make().observation_layout, ""
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        expected = _alone(subject, len(_KEYS), mode)
        for num_threads in (1, 2):
            with subject.vector(
                len(_KEYS), num_threads=num_threads, autoreset_mode=mode, steps_per_episode=_EPISODE
            ) as envs:
                inner = envs.inner_backends[0]
                kind = "natively" if inner.kind == "native" else f"one after another ({inner.reason})"
                found = rollout_difference(rollout(envs, _KEYS, _NUM_STEPS, restart=_RESTART), expected, layout)
            if found:
                return failed(
                    f"a batch on {num_threads} thread(s), {mode.name}, differs from environments alone: {found}",
                    "Do not let results depend on the number of rows: write sums as .sum(axis=-1), since @ and np.dot"
                    " round differently for another N, and use sim.num for shapes only.",
                )
    return passed(f"a batch on 1 and 2 threads equals environments alone, NEXT_STEP and SAME_STEP; it steps {kind}")


def check_workers(subject: Subject) -> Outcome:
    """Two worker processes give the same rollout to the bit."""
    remedy = (
        "Define the class in a module that a new process can import (not in a script without a __main__ guard), and let"
        " hooks not depend on the process: hash() of a string, the order of a set, the environment, files."
    )
    env = subject.make()
    keys = _KEYS[:4]
    expected = _alone(subject, len(keys), AutoresetMode.NEXT_STEP, restart=None)
    try:
        with HybridVectorEnv([subject.factory(steps_per_episode=_EPISODE)] * len(keys), 2) as envs:
            found = rollout_difference(rollout(envs, keys, _NUM_STEPS), expected, env.observation_layout)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return failed(f"2 workers raise {type(error).__name__}: {' '.join(lines[:1])}", remedy)
    if found:
        return failed(f"2 workers differ from environments alone: {found}", remedy)
    return passed("2 workers of 2 equal environments alone")


def _alone(
    subject: Subject, num_envs: int, mode: AutoresetMode, restart: int | None = _RESTART
) -> Sequence[tuple[Any, ...]]:
    """The rollout of environments that are stepped by themselves, put together by Gymnasium."""
    envs = SyncVectorEnv([subject.factory(steps_per_episode=_EPISODE)] * num_envs, autoreset_mode=mode)
    results = list(rollout(envs, _KEYS[:num_envs], _NUM_STEPS, restart=restart))
    envs.close()
    return [tuple(np.copy(part) if isinstance(part, np.ndarray) else part for part in result) for result in results]
