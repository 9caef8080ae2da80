"""Faults, injected at random moments, and what must come of each.

Workers are found among this process's children by name. They are killed by their
ids, which nothing else can have taken: they are not waited for in between.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError

from superdex.lab.gym.utils.vector import HybridVectorEnv, RestartUntoldError, WorkerError
from superdex.lab.gym.vector.startup import WORKER_NAME
from tests.lab.gym.vector.mocks import CountingEnv, FaultyEnv
from tests.soak.pair import Pair

__all__ = ["FAULTS", "kill_for_good", "killed_while_constructed", "raise_in_an_environment", "workers_of_others"]

_RAISED_WITHIN_SECONDS = 5.0
_LONGEST_DELAY_SECONDS = 0.2


def workers_of_others() -> frozenset[int]:
    """The ids of all workers that there are now, which are not to be touched."""
    return frozenset(_workers(frozenset()))


def _workers(others: frozenset[int]) -> dict[int, int]:
    """The index of each worker that is not among `others`, by process id."""
    return {
        child.pid: int(child.name.removeprefix(WORKER_NAME))
        for child in multiprocessing.active_children()
        if child.pid is not None and child.pid not in others and child.name.startswith(WORKER_NAME)
    }


def _choose(rng: np.random.Generator, others: frozenset[int]) -> int:
    """A random one, drawn by index: that does not depend on process ids."""
    pids = {index: pid for pid, index in _workers(others).items()}
    return pids[int(rng.choice(sorted(pids)))]


@contextmanager
def _soon(
    rng: np.random.Generator, fault: Callable[[], None], longest: float = _LONGEST_DELAY_SECONDS
) -> Iterator[None]:
    """Let `fault` happen at some moment from now on; it has happened in the end."""
    timer = threading.Timer(float(rng.uniform(0, longest)), fault)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def _await_death(pid: int) -> None:
    """So that a fault between two calls is over before the second one."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def between_steps(pair: Pair, rng: np.random.Generator, others: frozenset[int]) -> int:
    """A worker dies while nothing is asked of it."""
    pid = _choose(rng, others)
    _kill(pid)
    if rng.random() < 0.5:
        _await_death(pid)
    pair.play(rng, 2)
    return 1


def all_at_once(pair: Pair, rng: np.random.Generator, others: frozenset[int]) -> int:
    """All workers die."""
    pids = list(_workers(others))
    for pid in pids:
        _kill(pid)
    pair.play(rng, 2)
    return len(pids)


def during_steps(pair: Pair, rng: np.random.Generator, others: frozenset[int]) -> int:
    """A worker dies in the middle of a step, or between two."""
    with _soon(rng, partial(_kill, _choose(rng, others))):
        pair.play(rng, 3)
    pair.play(rng, 1)
    return 1


def during_reset(pair: Pair, rng: np.random.Generator, others: frozenset[int]) -> int:
    """A worker dies in the middle of a reset."""
    seed = int(rng.integers(2**31)) if rng.random() < 0.5 else None
    with _soon(rng, partial(_kill, _choose(rng, others)), 0.05):
        pair.reset(seed)
    pair.play(rng, 2)
    return 1


def during_call(pair: Pair, rng: np.random.Generator, others: frozenset[int]) -> int:
    """A worker dies while environments are asked for attributes, or for their states."""
    with _soon(rng, partial(_kill, _choose(rng, others)), 0.05):
        pair.call("np_random_seed")
        pair.set_attr("note", int(rng.integers(1000)))
        if not pair.setup.foreign:
            with suppress(RestartUntoldError):
                pair.capture()
    pair.play(rng, 2)
    return 1


def stopped(pair: Pair, rng: np.random.Generator, others: frozenset[int]) -> int:
    """A worker does not reply any more, and `worker_timeout` ends it."""
    if pair.setup.worker_timeout is None:
        return between_steps(pair, rng, others)
    pid = _choose(rng, others)
    os.kill(pid, signal.SIGSTOP)
    pair.play(rng, 2)
    return 1


FAULTS: dict[str, Callable[[Pair, np.random.Generator, frozenset[int]], int]] = {
    "worker killed between steps": between_steps,
    "all workers killed": all_at_once,
    "worker killed during a step": during_steps,
    "worker killed during a reset": during_reset,
    "worker killed during a call": during_call,
    "worker stopped": stopped,
}
"""Faults after which the environment goes on; each returns how many workers it ended."""


def kill_for_good(pair: Pair, rng: np.random.Generator, others: frozenset[int]) -> None:
    """Without restarts: one error, soon, that says what happened; then all is closed."""
    index = int(rng.integers(pair.setup.num_workers))
    pids = {worker: pid for pid, worker in _workers(others).items()}
    _kill(pids[index])
    begin = time.monotonic()
    with pytest.raises(WorkerError) as caught:
        pair.play(rng, 2)
    assert time.monotonic() - begin < _RAISED_WITHIN_SECONDS
    assert caught.value.worker_index == index
    assert caught.value.signal == signal.SIGKILL
    size = pair.setup.num_envs // pair.setup.num_workers
    assert caught.value.environments == tuple(range(index * size, (index + 1) * size))
    with pytest.raises(ClosedEnvironmentError):
        pair.env.reset()


def killed_while_constructed(
    make: Callable[[], HybridVectorEnv], rng: np.random.Generator, others: frozenset[int]
) -> None:
    """A worker dies before the environments are made, or right after it: an error, or a normal end."""

    def kill() -> None:
        pids = _workers(others)
        if pids:
            _kill(int(rng.choice(sorted(pids))))

    try:
        with _soon(rng, kill, 1.0):
            env = make()
    except WorkerError as error:
        if error.signal != signal.SIGKILL:
            raise
    else:
        env.close()


def raise_in_an_environment(rng: np.random.Generator) -> None:
    """An environment's own exception reaches the caller, and all is closed."""
    bad = int(rng.integers(4))
    moment = str(rng.choice(["constructor", "reset", "step"]))
    factories = [partial(FaultyEnv, "value_error", moment) if index == bad else CountingEnv for index in range(4)]

    def run() -> None:
        with HybridVectorEnv(factories, 2, on_worker_failure="restart") as env:
            env.reset()
            for _ in range(6):
                env.step(np.zeros((4, 2), np.float32))

    with pytest.raises(ValueError, match="bad joint 3") as caught:
        run()
    assert any(f"environment {bad}" in note for note in caught.value.__notes__)
