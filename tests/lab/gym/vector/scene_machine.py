"""A state machine for tasks in a native batch; its model are the environments alone, each on a scene of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from superdex.lab.gym.envs import EnvState, MochiEnv
from superdex.lab.gym.envs.benchmarks import AntEnv, CartPoleEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv
from superdex.lab.gym.vector.base import BatchedVectorEnv
from tests.lab.gym.envs.tasks import ArmEnv, SubstepArmEnv
from tests.lab.gym.vector.comparing import assert_same
from tests.lab.gym.vector.machines import BOOLS, DRAWS, MAX_ENVS, OPTIONS, SOME_SEEDS, Machine
from tests.lab.gym.vector.test_equivalence import MODES

TASKS: dict[str, list[partial[MochiEnv]]] = {
    "CartPole": [partial(CartPoleEnv, steps_per_episode=7)],
    "randomized CartPole": [partial(CartPoleEnv, steps_per_episode=7, randomize_physics=0.3)],
    "Ant": [partial(AntEnv, steps_per_episode=5, randomize_physics=0.1)],
    "Arm": [partial(ArmEnv, steps_per_episode=4)],
    "SubstepArm": [partial(SubstepArmEnv, steps_per_episode=4)],
    "two kinds": [partial(CartPoleEnv, steps_per_episode=7), partial(CartPoleEnv, steps_per_episode=3)],
    "some alone": [partial(CartPoleEnv, steps_per_episode=7), partial(CartPoleEnv, use_shared_scenes=False)],
}


class SceneMachine(Machine):
    """Tasks in a native batch; the model's are alone, each on a scene of its own."""

    @initialize(task=st.sampled_from(sorted(TASKS)), num_envs=st.integers(1, MAX_ENVS), mode=MODES, copy=BOOLS)
    def create(self, task: str, num_envs: int, mode: AutoresetMode, copy: bool) -> None:
        kinds = TASKS[task]
        self.env_fns = [kinds[index % len(kinds)] for index in range(num_envs)]
        self.setup = (task, num_envs, mode)
        self.states: list[tuple[Any, EnvState, list[EnvState], np.ndarray, bool]] = []
        alone = [partial(make, use_shared_scenes=False) for make in self.env_fns]
        self.begin(self.make(mode, copy, 1), SyncVectorEnv(alone, autoreset_mode=mode))
        self.stale = False

    def make(self, mode: AutoresetMode, copy: bool, threads: int) -> BatchedVectorEnv:
        return SceneVectorEnv(self.env_fns, autoreset_mode=mode, copy=copy, num_threads=threads)

    @precondition(lambda self: self.ready)
    @rule(mask=st.lists(BOOLS, min_size=MAX_ENVS, max_size=MAX_ENVS), seeds=SOME_SEEDS, options=OPTIONS)
    def reset_some(self, mask: list[bool], seeds: list[int | None], options: dict[str, Any] | None) -> None:
        rows = np.array(mask[: self.num_envs])
        if not rows.any():
            return
        options = {**(options or {}), "reset_mask": rows}
        result = self.env.reset(seed=seeds[: self.num_envs], options=options)
        assert options["reset_mask"] is rows
        expected = self.model.reset(seed=seeds[: self.num_envs], options=dict(options))
        # the model does not know the last observations of a restored state
        told = rows if self.stale else np.ones(self.num_envs, np.bool_)
        assert_same(result[0][told], expected[0][told], "observations of a reset of some")
        assert_same(result[1], expected[1], "infos of a reset of some")
        self.keep(result)
        self.ended[rows] = False

    @rule()
    def capture(self) -> None:
        state = self.env.capture_state()
        alone: list[EnvState] = [env.capture_state() for env in self.model.envs]  # type: ignore[attr-defined]
        for index, own in enumerate(alone if self.ready else ()):
            assert_same(arrays_of(state.part(index, index + 1)), arrays_of(own), f"state of environment {index}")
        self.states = [*self.states[-2:], (self.setup, state, alone, self.ended.copy(), self.ready)]

    @precondition(lambda self: self.states)
    @rule(which=st.integers(0, 2), anew=BOOLS, copy=BOOLS, threads=st.integers(1, 3))
    def restore(self, which: int, anew: bool, copy: bool, threads: int) -> None:
        """Into this environment, or into a new one."""
        _, state, alone, ended, ready = self.states[which % len(self.states)]
        if anew:
            self.env.close()
            self.env = self.make(self.env.autoreset_mode, copy, threads)
        self.env.restore_state(state)
        for env, own in zip(self.model.envs, alone, strict=True):
            env.restore_state(own)  # type: ignore[attr-defined]
        self.model._autoreset_envs = ended & (self.env.autoreset_mode is not AutoresetMode.SAME_STEP)
        self.ended, self.ready, self.stale = ended.copy(), ready, True

    @precondition(lambda self: self.ready)
    @rule(count=st.integers(1, 6), draw=DRAWS)
    def step(self, count: int, draw: int) -> None:
        super().step(count, draw)

    @precondition(lambda self: self.states)
    @rule()
    def restore_what_does_not_fit(self) -> None:
        state = self.states[-1][1]
        other = replace(state, num_envs=self.num_envs + 1, pending=np.zeros(self.num_envs + 1, np.bool_))
        with pytest.raises(ValueError, match="cannot be restored into"):
            self.env.restore_state(other)


def arrays_of(state: EnvState) -> dict[str, Any]:
    """The arrays of one environment's state."""
    arrays = state.sections[0].arrays
    return {**arrays, "seed": arrays["seed"].tolist()}  # text as wide as the longest of the batch
