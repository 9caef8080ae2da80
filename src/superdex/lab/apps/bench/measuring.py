"""Timing of sides that take turns, and the random actions that they get.

Sides take turns in short blocks of steps. `interleave` is for sides that do the
very same steps, `alternate` for sides of different size.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Any, Protocol, TypeVar

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from superdex.lab.apps.actions import finite_bounds
from superdex.lab.apps.bench.laps import Lap

__all__ = ["PAUSE", "Actions", "Contestant", "Plan", "Runner", "alternate", "interleave"]

T = TypeVar("T")

PAUSE = 0.002
"""Before a side's turn [s]. The threads of a `mujoco.batch.Batch` spin for some tenths of a millisecond after a
call, in which they would take a processor from whoever comes next."""

_LEAST_STEPS = 10
"""Of a lap: with fewer, chance and the one environment that resets would count for too much."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long and how often to measure."""

    seed: int = 0
    rounds: int = 5
    """Laps of each side."""
    num_steps: int | None = None
    """Control steps of a lap; None for as many as `min_seconds` need, and in `alternate` at least 10."""
    min_seconds: float = 0.2
    """Least duration of a lap [s]."""
    warmup_steps: int = 50
    """Control steps before the first lap: by then the episodes' ends are spread out."""

    def lap_is_over(self, steps: int, seconds: float) -> bool:
        """Whether a lap of so many steps, which took so long [s], is long enough."""
        return steps >= self.num_steps if self.num_steps is not None else seconds >= self.min_seconds


class Actions:
    """Random actions, uniform in a (batched) space, never the same twice. Bounds it lacks are `finite_bounds`.

    They are drawn here and not by `Box.sample`, which takes longer than a step of some tasks.
    """

    def __init__(self, space: Box, seed: int) -> None:
        self._space = space
        self._low, self._high = finite_bounds(space)
        self._range = self._high - self._low
        self._random = np.random.default_rng(seed)

    def draw(self) -> NDArray[Any]:
        """The actions of one step, shaped like the space."""
        drawn = self._low + self._random.random(self._space.shape, dtype=np.float32) * self._range
        return np.minimum(drawn, self._high).astype(self._space.dtype)  # rounding may have led beyond the bound


def interleave(
    sides: Mapping[str, Callable[[], float]],
    num_envs: int,
    plan: Plan,
    block_steps: int,
    before: Callable[[int], object],
    after: Callable[[], object],
) -> dict[str, list[Lap]]:
    """Have sides do the same steps in turns, in blocks of a few.

    Args:
        sides: by name; each does the block that `before` prepared and returns how long that took [s].
            Who goes first changes from block to block.
        num_envs: how many environments each side steps.
        plan: the laps; the first side's time decides when one is over.
        block_steps: the length of a block.
        before: called before each block with its length; not timed.
        after: called after each block; not timed.

    Returns:
        The laps of each side.
    """
    names = list(sides)
    laps: dict[str, list[Lap]] = {name: [] for name in names}
    for _ in range(plan.rounds):
        gc.collect()
        seconds = dict.fromkeys(names, 0.0)
        steps = turn = 0
        while not plan.lap_is_over(steps, seconds[names[0]]):
            count = block_steps if plan.num_steps is None else min(block_steps, plan.num_steps - steps)
            before(count)
            for name in _rotated(names, turn):
                sleep(PAUSE)
                seconds[name] += sides[name]()
            after()
            steps += count
            turn += 1
        for name in names:
            laps[name].append(Lap(steps * num_envs, seconds[name]))
    return laps


class Contestant(Protocol):
    """Whoever can be timed in turns with others."""

    def run(self, num_steps: int) -> Lap:
        """Time that many control steps."""
        ...


class Runner:
    """Steps a vector environment with random actions; its episodes began with the plan's seed.

    Args:
        env: what is stepped.
        plan: the seed, and how many steps to go before anything is timed.
        after_reset: called between the first reset and these steps.
    """

    def __init__(self, env: VectorEnv, plan: Plan, after_reset: Callable[[], object] = lambda: None) -> None:
        self.env = env
        self._actions = Actions(env.action_space, plan.seed)  # type: ignore[arg-type]
        env.reset(seed=plan.seed)
        after_reset()
        self.run(plan.warmup_steps)

    def draw(self, num_steps: int) -> list[NDArray[Any]]:
        """The actions of that many steps."""
        return [self._actions.draw() for _ in range(num_steps)]

    def run(self, num_steps: int) -> Lap:
        """Time that many steps; the drawing of actions is not counted."""
        actions = self.draw(num_steps)
        step = self.env.step
        sleep(PAUSE)
        start = perf_counter()
        for action in actions:
            step(action)
        return Lap(num_steps * self.env.num_envs, perf_counter() - start)


def alternate(runners: Mapping[str, Contestant], plan: Plan, together: Sequence[str] = ()) -> dict[str, list[Lap]]:
    """The laps of contestants that take turns in blocks of about `plan.min_seconds`, and of 10 steps at least.

    Args:
        runners: by name. Who goes first changes from turn to turn.
        plan: the laps.
        together: names of those that go right after one another, always in this order, since each
            needs what the one before has just done. They change places with the others as one.
    """
    blocks = {name: plan.num_steps or _block_length(runner, plan.min_seconds) for name, runner in runners.items()}
    units = [tuple(together)] if together else []
    units += [(name,) for name in runners if name not in together]
    laps: dict[str, list[Lap]] = {name: [] for name in runners}
    for turn in range(plan.rounds):
        gc.collect()
        for unit in _rotated(units, turn):
            for name in unit:
                laps[name].append(runners[name].run(blocks[name]))
    return laps


def _block_length(runner: Contestant, min_seconds: float) -> int:
    lap = runner.run(3)
    return max(_LEAST_STEPS, math.ceil(min_seconds / lap.seconds * 3))


def _rotated(those: list[T], turn: int) -> Iterator[T]:
    return (those[(turn + offset) % len(those)] for offset in range(len(those)))
