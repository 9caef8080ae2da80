"""State machines: vector environments in any order of calls, against a model that is given the same calls.

`SplitMachine` and `HybridMachine` have environments of any kind, and Gymnasium's
`SyncVectorEnv` as their model. The first has the vector environment without its
processes, and is cheap; the second starts workers. See `scene_machine` for a third.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from superdex.lab.gym.utils.vector import HybridVectorEnv
from superdex.lab.gym.vector.base import BatchedVectorEnv
from tests.lab.gym.vector.bad_calls import BAD_CALLS, BAD_FOR_PROCESSES
from tests.lab.gym.vector.comparing import assert_same
from tests.lab.gym.vector.mocks import MockEnv
from tests.lab.gym.vector.split import SplitVectorEnv
from tests.lab.gym.vector.test_equivalence import MODES, specs

MAX_ENVS = 6
SEEDS = st.lists(st.integers(0, 2**32), min_size=MAX_ENVS, max_size=MAX_ENVS)
SOME_SEEDS = st.lists(st.none() | st.integers(0, 2**32), min_size=MAX_ENVS, max_size=MAX_ENVS)
SPLITS = st.sampled_from([(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 2)])
OPTIONS = st.sampled_from([None, {}, {"shoulder": 0.5}, {"difficulty": 3, "track": [1, 2]}])
BOOLS = st.booleans()
DRAWS = st.integers(0, 2**32 - 1)

SEED_FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "none": lambda seeds: None,
    "int": lambda seeds: seeds[0],
    "NumPy int": lambda seeds: np.uint64(seeds[0]),
    "list": list,
    "tuple": tuple,
    "array": np.array,
}


class Machine(RuleBasedStateMachine):
    """What the machines share: a vector environment and its model."""

    env: BatchedVectorEnv
    model: SyncVectorEnv

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[Any, Any]] = []

    def begin(self, env: BatchedVectorEnv, model: SyncVectorEnv) -> None:
        """Go on with these, which were not reset yet."""
        self.env, self.model = env, model
        self.num_envs = env.num_envs
        self.ready = False
        self.ended = np.zeros(self.num_envs, np.bool_)

    def finish(self) -> None:
        """Close both."""
        self.env.close()
        self.model.close()

    def keep(self, result: Any) -> None:
        """Results stay as they are."""
        if self.env.copy:
            self.kept = [*self.kept[-2:], (result, deepcopy(result))]

    @invariant()
    def kept_results_stay_as_they_were(self) -> None:
        for result, before in self.kept:
            assert_same(result, before, "kept")

    @rule(form=st.sampled_from(sorted(SEED_FORMS)), seeds=SEEDS, options=OPTIONS)
    def reset(self, form: str, seeds: list[int], options: dict[str, Any] | None) -> None:
        if not self.ready and form == "none":
            form = "list"  # the first draws of unseeded generators cannot be equal
        self.do_reset(SEED_FORMS[form](seeds[: self.num_envs]), options)

    @precondition(lambda self: self.ready)
    @rule(seeds=SOME_SEEDS, options=OPTIONS)
    def reset_with_some_seeds(self, seeds: list[int | None], options: dict[str, Any] | None) -> None:
        self.do_reset(seeds[: self.num_envs], options)

    def do_reset(self, seed: Any, options: dict[str, Any] | None) -> None:
        given = deepcopy(options)
        result = self.env.reset(seed=seed, options=options)
        assert options == given
        model_seed = seed.tolist() if isinstance(seed, np.generic | np.ndarray) else seed
        assert_same(result, self.model.reset(seed=model_seed, options=deepcopy(options)), "reset")
        self.keep(result)
        self.ready = True
        self.ended[:] = False

    @precondition(lambda self: self.ready)
    @rule(count=st.integers(1, 6), draw=DRAWS)
    def step(self, count: int, draw: int) -> None:
        self.env.action_space.seed(draw)
        for _ in range(count):
            if self.env.autoreset_mode is AutoresetMode.DISABLED and self.ended.any():
                with pytest.raises(ResetNeeded):
                    self.env.step(self.env.action_space.sample())
                return
            actions = self.env.action_space.sample()
            result = self.env.step(actions)
            assert_same(tuple(result), self.model.step(actions), "step")
            self.keep(result)
            self.ended = result.terminated | result.truncated

    @precondition(lambda self: not self.ready)
    @rule()
    def step_before_reset(self) -> None:
        with pytest.raises(ResetNeeded):
            self.env.step(self.env.action_space.sample())

    @rule(name=st.sampled_from(sorted(BAD_CALLS)))
    def bad_call(self, name: str) -> None:
        if not self.ready and name.startswith("step"):
            return
        if name == "step: NaN" and self.env.action_space.dtype.kind in "iu":
            name = "step: complex"
        if self.num_envs == 1 and name == "step: one row short":
            name = "step: one axis more"
        BAD_CALLS[name].check(self.env)

    @rule(values=SEEDS, each=BOOLS)
    def set_and_get_an_attribute(self, values: list[int], each: bool) -> None:
        value = values[: self.num_envs] if each else values[0]
        for env in (self.env, self.model):
            env.set_attr("note", value)
        assert_same(self.env.get_attr("note"), self.model.get_attr("note"), "note")

    @precondition(lambda self: self.ready)
    @rule()
    def get_seeds(self) -> None:
        assert_same(self.env.np_random_seed, self.model.np_random_seed)

    def teardown(self) -> None:
        if hasattr(self, "env"):
            self.finish()


class MockMachine(Machine):
    """Environments of any kind, split into chunks."""

    def make(self, env_fns: list[Any], k: int, mode: AutoresetMode, copy: bool) -> BatchedVectorEnv:
        raise NotImplementedError

    @initialize(spec=specs(), split=SPLITS, mode=MODES, copy=BOOLS)
    def create(self, spec: Any, split: tuple[int, int], mode: AutoresetMode, copy: bool) -> None:
        self.env_fns = [partial(MockEnv, spec)] * (split[0] * split[1])
        self.split_anew(split[1], mode, copy)

    @rule(spec=specs(), split=SPLITS, mode=MODES, copy=BOOLS)
    def create_anew(self, spec: Any, split: tuple[int, int], mode: AutoresetMode, copy: bool) -> None:
        self.finish()
        self.create(spec, split, mode, copy)

    def split_anew(self, k: int, mode: AutoresetMode, copy: bool) -> None:
        self.begin(self.make(self.env_fns, k, mode, copy), SyncVectorEnv(self.env_fns, autoreset_mode=mode))

    @precondition(lambda self: self.ready)
    @rule(name=st.sampled_from(["_observation", "_infos", "steps", "total", "options"]))
    def call(self, name: str) -> None:
        """Some of these draw from the environments' generators."""
        assert_same(self.env.call(name), self.model.call(name), f"call {name}")

    @rule(total=st.floats(-1e3, 1e3))
    def disturb(self, total: float) -> None:
        """What a step returns depends on this attribute."""
        values = [total + index for index in range(self.num_envs)]
        self.env.set_attr("total", values)
        self.model.set_attr("total", values)


class SplitMachine(MockMachine):
    """In this process."""

    def make(self, env_fns: list[Any], k: int, mode: AutoresetMode, copy: bool) -> BatchedVectorEnv:
        return SplitVectorEnv(env_fns, k, mode, copy)


class HybridMachine(MockMachine):
    """In worker processes."""

    def make(self, env_fns: list[Any], k: int, mode: AutoresetMode, copy: bool) -> BatchedVectorEnv:
        return HybridVectorEnv(env_fns, k, autoreset_mode=mode, copy=copy)

    @rule(name=st.sampled_from(sorted(BAD_FOR_PROCESSES)))
    def bad_call_for_processes(self, name: str) -> None:
        BAD_FOR_PROCESSES[name].check(self.env)

    @rule()
    def capture_is_refused(self) -> None:
        with pytest.raises(TypeError, match=r"environment 0 .*cannot be captured"):
            self.env.capture_state()
