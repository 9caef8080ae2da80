"""A round: one vector environment from construction to close, with random calls and faults in between."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from superdex.lab.gym.utils.vector import HybridVectorEnv
from tests.soak import faults
from tests.soak.moves import MOVES, Shared
from tests.soak.pair import Pair
from tests.soak.setups import TASKS, Setup, draw_setup

__all__ = ["Round"]

_FAULT_CHANCE = 0.25


class Round:
    """Round `number` of the soak with this `seed`: which calls it makes depends on nothing else.

    Where a fault strikes does: workers are killed at moments of the clock.
    """

    def __init__(self, seed: int, number: int, num_envs: int, counts: Counter[str]) -> None:
        self.rng = np.random.default_rng([seed, number])
        tasks = list(TASKS)
        self.setup = draw_setup(self.rng, num_envs, tasks[number % len(tasks)])
        self.num_moves = int(self.rng.integers(8, 20))
        self._counts = counts
        self._others = faults.workers_of_others()

    def run(self, deadline: float) -> None:
        """Run it, but begin no move after `deadline` (as `time.monotonic` counts)."""
        first, *rngs = self.rng.spawn(1 + self.num_moves)
        self._fail_first(first)
        with tempfile.TemporaryDirectory() as folder:
            pair = Pair(self.setup, self._counts)
            try:
                pair.reset(int(self.rng.integers(2**31)))
                expected = 0
                shared = Shared(Path(folder))
                for rng in rngs:
                    if time.monotonic() > deadline:
                        break
                    expected += self._move(pair, rng, shared)
                pair.reset_if_ended()
                pair.play(self.rng, 1)
                pair.check_attributes()
                if self.setup.worker_timeout is None:
                    assert pair.restarts == expected, f"{pair.restarts} restarts after {expected} deaths"
                if self.setup.kind == "hybrid" and self.setup.on_worker_failure == "raise":
                    self._survived("worker killed for good", lambda: faults.kill_for_good(pair, self.rng, self._others))
            finally:
                pair.close()
        self._counts["rounds"] += 1

    def _move(self, pair: Pair, rng: np.random.Generator, shared: Shared) -> int:
        """A random call or fault; how many workers it ended."""
        setup = self.setup
        if setup.kind == "hybrid" and setup.on_worker_failure == "restart" and rng.random() < _FAULT_CHANCE:
            name = str(rng.choice(list(faults.FAULTS)))
            self._counts[f"injected: {name}"] += 1
            ended = faults.FAULTS[name](pair, rng, self._others)
            self._counts[f"survived: {name}"] += 1
            return ended
        moves = list(MOVES)
        weights = np.array([MOVES[move] for move in moves])
        moves[rng.choice(len(moves), p=weights / weights.sum())](pair, rng, shared)
        return 0

    def _fail_first(self, rng: np.random.Generator) -> None:
        """Sometimes, things go wrong before the round has begun."""
        chance = rng.random()
        if chance < 0.15:
            self._survived("exception in an environment", lambda: faults.raise_in_an_environment(rng))
        elif chance < 0.35 and self.setup.kind == "hybrid":
            setup = replace(self.setup, num_envs=4 * self.setup.num_workers)
            self._survived("worker killed during construction", lambda: self._kill_in_constructor(setup, rng))

    def _kill_in_constructor(self, setup: Setup, rng: np.random.Generator) -> None:
        def make() -> HybridVectorEnv:
            env = setup.make()
            assert isinstance(env, HybridVectorEnv)
            return env

        faults.killed_while_constructed(make, rng, self._others)

    def _survived(self, name: str, fault: Callable[[], None]) -> None:
        self._counts[f"injected: {name}"] += 1
        fault()
        self._counts[f"survived: {name}"] += 1
