"""N environments of one task, stepped together: the one place where a task's hooks are called.

An environment that is stepped alone is a `TaskBatch` of one row; a vector
environment's native batch is one of thousands. Both run this code on the same
hooks and the same kind of rows, which is why their results are equal to the bit.

A batch resets and steps the rows it is told to and writes observations,
rewards and flags at those rows of the caller's arrays. Rows are sorted indices,
or None for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.utils import seeding
from numpy.typing import NDArray

from superdex.lab.gym.envs.errors import TaskError
from superdex.lab.gym.envs.reasons import Reasons
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.types import Mask, StructuredArrays, Terminate, Truncate
from superdex.physics import Rows, SceneBatch

if TYPE_CHECKING:
    from superdex.lab.gym.envs.mochi_env import MochiEnv

__all__ = ["DIVERGED", "EPISODE_LIMIT", "NOT_RESET", "TaskBatch"]

DIVERGED = "Simulation diverged"
EPISODE_LIMIT = "Steps per episode reached"

NOT_RESET = -1
"""In `episode_steps`: the environment has never been reset."""

_MAX_REASONS = 255


class TaskBatch:
    """The environments `members` of one task, configuration and scene, one per row of `physics`.

    Args:
        members: the environments; the first one's hooks are called, each one's
            `np_random` serves its row.
        physics: as many simulations of the environments' scene.
    """

    def __init__(self, members: Sequence[MochiEnv], physics: SceneBatch) -> None:
        self.members = members
        self.task = members[0]
        self.physics = physics
        self.physics.track(self.task.derived_fields)
        self.physics.expand(self.task.randomized_fields)
        self.episode_steps = np.full(len(members), NOT_RESET, np.int64)
        """(N,) control steps since the reset."""
        self.task_state = {
            name: np.zeros((len(members), *shape), dtype) for name, (shape, dtype) in self.task.declared_state.items()
        }
        """(N, *shape) the task's declared state by name."""
        self.generators = np.array([member._np_random for member in members], np.object_)
        """(N,) the environments' random generators, None for one that has never been reset."""
        for index, member in enumerate(members):
            member._generator = self.generators[index : index + 1]
        self._seeded = False
        self._reasons: dict[str | None, int] = {None: 0}

    def row(self, index: int) -> TaskBatch:
        """The batch of one row that shares row `index` with this one."""
        row = object.__new__(TaskBatch)
        row.members = self.members[index : index + 1]
        row.task = row.members[0]
        row.physics = self.physics.row(index)
        row.episode_steps = self.episode_steps[index : index + 1]
        row.generators = self.generators[index : index + 1]
        row._seeded = False
        row.task_state = {name: state[index : index + 1] for name, state in self.task_state.items()}
        row._reasons = self._reasons
        return row

    def reset(
        self,
        rows: Rows,
        seeds: Sequence[int | None] | None,
        options: Mapping[str, Any] | None,
        observation: NDArray[Any],
    ) -> StructuredArrays:
        """Begin new episodes in `rows`.

        Args:
            rows: the rows to reset.
            seeds: a seed or None per row in play; None leaves every generator as it is.
            options: handed to the task's reset hook.
            observation: (N, size) where the observations of `rows` are written.

        Returns:
            The task's infos, each of one entry per row in play.
        """
        select = slice(None) if rows is None else rows
        if seeds is not None or not self._seeded:
            self._seed(rows, seeds)
        self.physics.reset(rows)
        self.episode_steps[select] = 0
        for state in self.task_state.values():
            state[select] = 0
        if self.task.randomized_fields:
            self._randomize(rows)
        sim = Sim(self.physics, self.task_state, self.generators, rows, writable=True, derived=False)
        self.task._reset(sim, options or {})
        sim.commit()
        if self.task.derived_fields:
            self.physics.forward(rows)
        sim = Sim(self.physics, self.task_state, self.generators, rows, writable=False)
        out = observation if rows is None else np.empty((sim.num, *observation.shape[1:]), observation.dtype)
        info = self._observe(sim, out)[1]
        sim.commit()
        if rows is not None:
            observation[rows] = out
        return info

    def _seed(self, rows: Rows, seeds: Sequence[int | None] | None) -> None:
        """Make the generators that were given a seed, and those that there never were."""
        indices = range(len(self.members)) if rows is None else rows.tolist()
        for index, seed in zip(indices, seeds or itertools.repeat(None, len(indices)), strict=True):
            if seed is not None or self.generators[index] is None:
                member = self.members[index]
                member._np_random, member._np_random_seed = seeding.np_random(seed)
        self._seeded = None not in self.generators.tolist()

    def _randomize(self, rows: Rows) -> None:
        self.physics.reset_parameters(rows)
        sim = Sim(self.physics, self.task_state, self.generators, rows, writable=False, derived=False, randomizing=True)
        self.task._randomize(sim)
        sim.commit()
        self.physics.apply_parameters(rows)

    def step(
        self,
        rows: Rows,
        action: NDArray[Any],
        observation: NDArray[Any],
        reward: NDArray[np.float64],
        terminated: Mask,
        truncated: Mask,
    ) -> dict[str, NDArray[Any] | Reasons]:
        """Step `rows` with their rows of `action`, (N, size), and write their results to the given (N, ...) arrays.

        Other rows must be reset next. The hooks run over all rows, which is cheaper than
        to pick some out, so those rows of the arrays and of the task's state hold nothing
        of use until then; they are not simulated, and their generators are not touched.

        Returns:
            Infos, (N, ...) each: the task's own, `reward_<term>`, `terminated_reason` and
            `truncated_reason`.
        """
        controls = self._act(rows, action)
        diverged = self._reset_diverged(rows)
        self.episode_steps += 1

        sim = self._sim_of_step(rows, writable=False)
        structured, info = self._observe(sim, observation)
        info.update(_infos(self.task._make_step_info(sim), sim.num))
        terms = self._reward_terms(controls, structured, info, diverged)
        ended, cut = self._stops(sim, structured, info, diverged)

        reward[:] = _per_row(self.task._total_reward(terms), sim.num, "The total reward") if terms else 0.0
        if diverged is not None:
            reward[diverged] = 0.0  # where the total is more than the sum of the terms
        np.not_equal(ended.codes, 0, out=terminated)
        np.not_equal(cut.codes, 0, out=truncated)
        infos: dict[str, NDArray[Any] | Reasons] = dict(info)
        infos.update((f"reward_{name}", term) for name, term in terms.items())
        infos["terminated_reason"] = ended
        infos["truncated_reason"] = cut
        return infos

    def _sim_of_step(self, rows: Rows, *, writable: bool) -> Sim:
        return Sim(self.physics, self.task_state, self.generators, None, running=rows, writable=writable)

    def _act(self, rows: Rows, action: NDArray[Any]) -> StructuredArrays:
        """Apply actions (N, size), clipped if the task wants it, and run the control step's substeps."""
        space = self.task.action_layout
        if self.task.clips_actions:
            action = action.clip(space.low, space.high)
        controls = space.split(action.astype(space.dtype, copy=False))
        substeps = self.task.cfg.num_substeps
        calls, per_call = (substeps, 1) if self.task.acts_per_substep else (1, substeps)
        for _ in range(calls):
            self.task._apply_action(self._sim_of_step(rows, writable=True), controls)
            self.physics.step(per_call, rows)
        return controls

    def _reset_diverged(self, rows: Rows) -> Rows:
        """Put simulations among `rows` that have gone bad back to the initial state, and say which, if any."""
        diverged = self.physics.diverged()
        if diverged is not None and rows is not None:
            diverged = np.intersect1d(diverged, rows, assume_unique=True)
        if diverged is None or not diverged.size:
            return None
        self.physics.reset(diverged)
        for state in self.task_state.values():
            state[diverged] = 0
        if self.task.derived_fields:
            self.physics.forward(diverged)
        return diverged

    def _observe(self, sim: Sim, out: NDArray[Any]) -> tuple[StructuredArrays, StructuredArrays]:
        """The task's observation and infos; the flat observation is written to `out`, (N in play, size)."""
        made = self.task._make_observation(sim)
        if not isinstance(made, tuple) or len(made) != 2:
            raise TaskError(
                f"{type(self.task).__name__}._make_observation must return (observation, info), two dicts of arrays,"
                f" got {type(made).__name__}."
            )
        structured, info = made
        self.task.observation_layout.check_keys(structured)
        self.task.observation_layout.write(structured, out)
        return structured, _infos(info, sim.num)

    def _reward_terms(
        self,
        action: StructuredArrays,
        observation: StructuredArrays,
        info: StructuredArrays,
        diverged: Rows,
    ) -> dict[str, NDArray[np.float64]]:
        num = len(self.members)
        terms = {}
        for name, value in self.task._compute_reward_terms(action, observation, info).items():
            term = np.array(value, np.float64)
            if term.shape != (num,):
                raise TaskError(f"Reward term {name!r} must have shape ({num},), one value per row, got {term.shape}.")
            if diverged is not None:
                term[diverged] = 0.0  # there is no transition to reward
            terms[name] = term
        return terms

    def _stops(
        self,
        sim: Sim,
        observation: StructuredArrays,
        info: StructuredArrays,
        diverged: Rows,
    ) -> tuple[Reasons, Reasons]:
        """Why the episode of each row ends, if it does; the first reason given counts."""
        terminated, truncated = np.zeros(sim.num, np.uint8), np.zeros(sim.num, np.uint8)
        if diverged is not None:
            terminated[diverged] = self._code(DIVERGED)
        for stop in self.task._check_stop_criteria(sim, observation, info):
            if not isinstance(stop, (Terminate, Truncate)):
                raise TaskError(
                    f"{type(self.task).__name__}._check_stop_criteria must return a list of Terminate(mask, reason) and"
                    f" Truncate(mask, reason), got an item {stop!r}."
                )
            mask = np.asarray(stop.mask)
            if mask.shape != (sim.num,) or mask.dtype != np.bool_:
                raise TaskError(
                    f"The mask of {stop.reason!r} must be booleans of shape ({sim.num},), one per row,"
                    f" got shape {mask.shape} and dtype {mask.dtype}."
                )
            self._mark(terminated if isinstance(stop, Terminate) else truncated, mask, stop.reason)
        if self.task.cfg.steps_per_episode > 0:
            self._mark(truncated, self.episode_steps >= self.task.cfg.steps_per_episode, EPISODE_LIMIT)
        table = tuple(self._reasons)
        return Reasons(terminated, table), Reasons(truncated, table)

    def _mark(self, codes: NDArray[np.uint8], mask: Mask, reason: str) -> None:
        """Give `reason` to the rows in `mask` that have none yet."""
        if np.count_nonzero(mask):
            codes[mask & (codes == 0)] = self._code(reason)

    def _code(self, reason: str) -> int:
        code = self._reasons.setdefault(reason, len(self._reasons))
        if code > _MAX_REASONS:
            raise TaskError(
                f"{type(self.task).__name__} gives more than {_MAX_REASONS} different reasons to stop, the last"
                f" {reason!r}. Reasons are fixed texts: put figures into infos."
            )
        return code


def _infos(info: StructuredArrays, num: int) -> StructuredArrays:
    """Copies: an info may be a view of the state, which the next step changes."""
    return {name: np.array(_per_row(value, num, f"info {name!r}")) for name, value in info.items()}


def _per_row(value: Any, num: int, what: str) -> np.ndarray:
    array = np.asarray(value)
    if array.shape[:1] != (num,):
        raise TaskError(f"{what} must have a leading axis of {num} rows, got shape {array.shape}.")
    return array
