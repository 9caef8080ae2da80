"""A vector environment under test and its undisturbed twin, given the same calls.

Whatever the first returns must equal what the twin returns, to the bit, for every
environment whose rollout no fault has cut. A fault cuts the rollouts of the
environments of a worker that was started again (`touched`), until a seed or a
state makes them equal anew. What is returned for these in the meantime is held
against what is promised for them.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from superdex.lab.gym.envs import EnvState
from superdex.lab.gym.utils.vector import BatchedStepResult, HybridVectorEnv, RestartUntoldError
from tests.lab.gym.vector.comparing import assert_same
from tests.soak.setups import Setup

__all__ = ["Pair"]

RESTARTED = "Worker restarted"


class Pair:
    """Both, and what must hold between them."""

    def __init__(self, setup: Setup, counts: Counter[str]) -> None:
        self.setup = setup
        self.counts = counts
        self.env = setup.make()
        self.twin = setup.make_twin()
        self.touched = np.zeros(setup.num_envs, np.bool_)
        """(num_envs,) whose rollout a fault has cut."""
        self.untold = np.zeros(setup.num_envs, np.bool_)
        """(num_envs,) of those, whose end no step has told so far."""
        self.ended = np.zeros(setup.num_envs, np.bool_)
        self._over = np.zeros(setup.num_envs, np.bool_)
        """(num_envs,) in NEXT_STEP mode: which the next step of the first resets."""
        self._restarts = self._worker_restarts()
        self._last = np.zeros(self.env.observation_space.shape, self.env.observation_space.dtype)
        self._kept: list[tuple[Any, Any]] = []
        self._attributes: dict[str, list[Any]] = {}

    @property
    def restarts(self) -> int:
        """How often workers were started again."""
        return sum(self._worker_restarts())

    def reset(self, seed: Any = None, options: dict[str, Any] | None = None) -> None:
        """Reset both; with a seed for each environment, they are equal from here on."""
        mask = None if options is None else options.get("reset_mask")
        result = self.env.reset(seed=seed, options=options)
        expected = self.twin.reset(seed=seed, options=None if options is None else dict(options))
        self._notice_restarts()
        seeds = [seed] * self.setup.num_envs if seed is None or isinstance(seed, int) else seed
        self.touched[[entry is not None for entry in seeds]] = False
        self.untold[:] = False
        for flags in (self.ended, self._over):
            flags[slice(None) if mask is None else mask] = False
        self._compare(result[:1], expected[:1], result[1], expected[1], "reset")
        self._keep(result)
        self.counts["resets"] += 1

    def step(self, actions: np.ndarray) -> BatchedStepResult:
        """Step both; call `reset_if_ended` before."""
        result = self.env.step(actions)
        expected = self.twin.step(actions)
        told = self.untold | self._notice_restarts()
        self.untold = np.zeros_like(told)
        if told.any():
            self._check_told(result, told)
        self._compare(result[:4], expected[:4], result.info, expected[4], "step")
        self.ended = result.terminated | result.truncated | expected[2] | expected[3]
        if self.setup.mode is AutoresetMode.NEXT_STEP:
            self._over = result.terminated | result.truncated
        self._keep(tuple(result))
        self.counts["steps"] += 1
        self.counts["environment steps"] += self.setup.num_envs
        return result

    def reset_if_ended(self) -> None:
        """Without autoreset, begin anew once episodes have ended."""
        if self.setup.mode is AutoresetMode.DISABLED and self.ended.any():
            self.reset()

    def play(self, rng: np.random.Generator, num_steps: int) -> None:
        """Random actions, some out of bounds."""
        for _ in range(num_steps):
            self.reset_if_ended()
            self.step(self.actions(rng))

    def actions(self, rng: np.random.Generator) -> np.ndarray:
        """One row for each environment."""
        space = self.env.single_action_space
        return rng.uniform(1.2 * space.low, 1.2 * space.high, self.env.action_space.shape).astype(space.dtype)

    def call(self, name: str, *args: Any) -> None:
        """A method of every environment, or an attribute."""
        result, expected = self.env.call(name, *args), self.twin.call(name, *args)
        self.untold |= self._notice_restarts()
        for row in np.flatnonzero(~self.touched):
            assert_same(result[row], expected[row], f"call {name}")

    def set_attr(self, name: str, values: Any) -> None:
        """An attribute of every environment, which it keeps when it is made again."""
        self.env.set_attr(name, values)
        self.untold |= self._notice_restarts()
        self._attributes[name] = values if isinstance(values, list) else [values] * self.setup.num_envs

    def check_attributes(self) -> None:
        """Every environment has what was set."""
        for name, values in self._attributes.items():
            got = self.env.get_attr(name)
            self.untold |= self._notice_restarts()
            assert_same(list(got), values, f"attribute {name}")

    def capture(self) -> EnvState:
        """The state of the first; that of the twin is the same.

        Raises:
            RestartUntoldError: if no step has told so far that episodes ended with a worker.
        """
        try:
            state = self.env.capture_state()
        except RestartUntoldError:
            self.untold |= self._notice_restarts()
            assert self.untold.any()
            raise
        self.untold |= self._notice_restarts()
        own = self.twin.capture_state()
        rows = ~self.touched
        assert_same(state.pending[rows], own.pending[rows], "pending")
        for section, expected in zip(state.sections, own.sections, strict=True):
            assert section.key == expected.key
            assert_same(section.environments, expected.environments, "environments of a section")
            kept = rows[section.environments]
            for name, values in section.arrays.items():
                np.testing.assert_array_equal(values[kept], expected.arrays[name][kept], f"state {name!r}")
        return state

    def restore(self, state: EnvState) -> None:
        """Both continue from there, and are equal."""
        self.env.restore_state(state)
        self._notice_restarts()
        self.twin.restore_state(state)
        self.touched[:] = self.untold[:] = False
        self.ended = state.pending.copy()
        if self.setup.mode is AutoresetMode.NEXT_STEP:
            self._over = state.pending.copy()

    def reunite(self) -> None:
        """Let the twin continue where the first is, so that all environments are compared again."""
        if self.setup.foreign or not self.touched.any() or self.untold.any():
            return
        self.twin.restore_state(self.capture())
        self.touched[:] = False

    def close(self) -> None:
        """Close both."""
        self.env.close()
        self.twin.close()

    def _worker_restarts(self) -> tuple[int, ...]:
        return self.env.worker_restarts if isinstance(self.env, HybridVectorEnv) else ()

    def _notice_restarts(self) -> NDArray[np.bool_]:
        """(num_envs,) whose worker was started again since this was last asked."""
        rows = np.zeros(self.setup.num_envs, np.bool_)
        now = self._worker_restarts()
        size = self.setup.num_envs // max(1, len(now))
        for worker, (before, after) in enumerate(zip(self._restarts, now, strict=True)):
            rows[worker * size : (worker + 1) * size] = after > before
        self._restarts = now
        self.touched |= rows
        return rows

    def _compare(self, arrays: Any, expected: Any, info: Any, expected_info: Any, what: str) -> None:
        rows = ~self.touched
        if rows.all():
            assert_same((*arrays, info), (*expected, expected_info), what)
            return
        for number, (array, wanted) in enumerate(zip(arrays, expected, strict=True)):
            assert_same(array[rows], wanted[rows], f"{what}[{number}]")
        assert_same(_restricted(info, rows), _restricted(expected_info, rows), f"{what} info")

    def _check_told(self, result: BatchedStepResult, told: NDArray[np.bool_]) -> None:
        """The step in which a worker's death shows; an episode that had ended before is reset as usual."""
        assert (result.truncated[told] == ~self._over[told]).all()
        assert not result.terminated[told].any()
        assert (result.reward[told] == 0).all()
        told = told & ~self._over
        if not told.any():
            return
        info, last = result.info, result.observation
        if self.setup.mode is AutoresetMode.SAME_STEP:
            assert info["_final_obs"][told].all()
            last, info = np.stack([info["final_obs"][row] for row in np.flatnonzero(told)]), info["final_info"]
        else:
            last = last[told]
        assert_same(last, self._last[told], "last observation")
        assert info["_truncated_reason"][told].all()
        assert (info["truncated_reason"][told] == RESTARTED).all()

    def _keep(self, result: tuple[Any, ...]) -> None:
        """Unless it was asked for views, what was returned stays as it was."""
        self._last[...] = result[0]
        for earlier, before in self._kept:
            assert_same(earlier, before, "an earlier result")
        self._kept = [(result, deepcopy(result))] if self.env.copy and self.counts["steps"] % 8 == 0 else []


def _restricted(info: dict[str, Any], rows: NDArray[np.bool_]) -> dict[str, Any]:
    """The entries of some environments: for each key that one of them has, which, and their values."""
    restricted = {}
    for key, value in info.items():
        present = rows & info[f"_{key}"] if f"_{key}" in info else np.zeros_like(rows)
        if present.any():
            restricted[key] = present, _restricted(value, rows) if isinstance(value, dict) else value[present]
    return restricted
