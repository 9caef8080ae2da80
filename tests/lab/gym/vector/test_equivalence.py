"""`HybridVectorEnv` is `SyncVectorEnv`, to the bit, whatever the environments and the split."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from superdex.lab.gym.utils.vector import HybridVectorEnv
from tests.lab.gym.vector.comparing import assert_same
from tests.lab.gym.vector.mocks import INFOS, REWARDS, CountingEnv, MockEnv, MockSpec
from tests.lab.gym.vector.split import SplitVectorEnv

WIDER = {"float32": ["float32", "float64"], "float64": ["float64", "float32", "int64"], "uint8": ["uint8"]}
WIDER["int32"] = ["int32", "int16", "int64"]

MODES = st.sampled_from(list(AutoresetMode))


@st.composite
def specs(draw: st.DrawFn) -> MockSpec:
    shape = st.sampled_from([(), (1,), (3,), (2, 3), (4, 4, 3)])
    observation_dtype = draw(st.sampled_from(sorted(WIDER)))
    return MockSpec(
        observation_shape=draw(shape),
        observation_dtype=observation_dtype,
        raw_dtype=draw(st.sampled_from(WIDER[observation_dtype])),
        action_shape=draw(shape),
        action_dtype=draw(st.sampled_from(["float32", "float64", "int32", "uint8"])),
        reward=draw(st.sampled_from(sorted(REWARDS))),
        infos=tuple(draw(st.lists(st.sampled_from(sorted(INFOS)), unique=True, max_size=8))),
        info_chance=draw(st.sampled_from([1.0, 0.7, 0.1])),
        end_chance=draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
        numpy_flags=draw(st.booleans()),
    )


@st.composite
def programs(draw: st.DrawFn, num_envs: int) -> list[tuple[Any, dict[str, Any] | None, int]]:
    """Resets, each with seeds, options and a number of steps to follow; the first one seeds all."""
    seed = st.integers(0, 2**32)
    seeds = st.lists(seed, min_size=num_envs, max_size=num_envs)
    some = st.lists(st.none() | seed, min_size=num_envs, max_size=num_envs)
    options = st.none() | st.just({}) | st.just({"difficulty": 3, "track": [1, 2]})
    steps = st.integers(0, 12)
    first = draw(st.tuples(seed | seeds | seeds.map(tuple), options, steps))
    return [first, *draw(st.lists(st.tuples(st.none() | seed | some, options, steps), max_size=3))]


def run_both(actual: VectorEnv, expected: VectorEnv, program: list[Any], seed: int) -> None:
    """Run the program on both and compare everything they return."""
    actual.action_space.seed(seed)
    manual = expected.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    for reset_seed, options, steps in program:
        assert_same(*(env.reset(seed=reset_seed, options=options) for env in (actual, expected)), path="reset")
        for t in range(steps):
            actions = actual.action_space.sample()
            result, reference = actual.step(actions), expected.step(actions)
            assert_same(tuple(result), reference, f"step {t}")
            if manual and (result.terminated | result.truncated).any():
                assert_same(*(env.reset() for env in (actual, expected)), path=f"reset after step {t}")


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_split_equals_sync_vector_env(data: st.DataObject) -> None:
    k, workers = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    spec, mode, program = data.draw(specs()), data.draw(MODES), data.draw(programs(k * workers))
    env_fns = [partial(MockEnv, spec)] * (k * workers)
    run_both(SplitVectorEnv(env_fns, k, mode), SyncVectorEnv(env_fns, autoreset_mode=mode), program, 0)


# No shrinking: each example starts processes. The test above shrinks, and finds the same faults.
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(st.data())
def test_worker_processes_equal_sync_vector_env(data: st.DataObject) -> None:
    k, workers = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    spec, mode, program = data.draw(specs()), data.draw(MODES), data.draw(programs(k * workers))
    env_fns = [partial(MockEnv, spec)] * (k * workers)
    with HybridVectorEnv(env_fns, k, autoreset_mode=mode) as env:
        run_both(env, SyncVectorEnv(env_fns, autoreset_mode=mode), program, 0)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_reset_masks_equal_sync_vector_env(data: st.DataObject) -> None:
    spec, mode = data.draw(specs()), data.draw(MODES)
    env_fns = [partial(MockEnv, spec)] * 4
    actual, expected = SplitVectorEnv(env_fns, 2, mode), SyncVectorEnv(env_fns, autoreset_mode=mode)
    run_both(actual, expected, [(7, None, 0)], 0)
    for t in range(8):
        actions = actual.action_space.sample()
        result = actual.step(actions)
        assert_same(tuple(result), expected.step(actions), f"step {t}")
        mask = result.terminated | result.truncated
        if mask.any() and (mode is AutoresetMode.DISABLED or data.draw(st.booleans())):
            seed = data.draw(st.sampled_from([None, 5, [1, None, 2, 3]]))
            both = [env.reset(seed=seed, options={"reset_mask": mask.copy(), "x": 1}) for env in (actual, expected)]
            assert_same(*both, path=f"reset after step {t}")


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("k", [1, 2, 4])
def test_autoreset_sequence(mode: AutoresetMode, k: int) -> None:
    """Episodes of 2 and 3 steps, written out."""
    env = SplitVectorEnv([partial(CountingEnv, length) for length in (2, 3, 2, 3)], k, mode)
    env.reset(seed=0)
    actions = np.zeros((4, 2), np.float32)
    if mode is AutoresetMode.DISABLED:
        env.step(actions)
        assert env.step(actions).observation[:, 0].tolist() == [2, 2, 2, 2]
        return
    seen = [env.step(actions) for _ in range(4)]
    steps = [result.observation[:2, 0].tolist() for result in seen]
    ended = [result.terminated[:2].tolist() for result in seen]
    rewards = [result.reward[:2].tolist() for result in seen]
    if mode is AutoresetMode.NEXT_STEP:
        assert steps == [[1, 1], [2, 2], [0, 3], [1, 0]]
        assert rewards == [[1, 1], [2, 2], [0, 3], [1, 0]]
        assert ended == [[False, False], [True, False], [False, True], [False, False]]
        assert seen[1].info["terminated_reason"].tolist() == ["Counted to the end", None] * 2
        assert seen[2].info["_terminated_reason"].tolist() == [False, True, False, True]
    else:
        assert steps == [[1, 1], [0, 2], [1, 0], [0, 1]]
        assert rewards == [[1, 1], [2, 2], [1, 3], [2, 1]]
        assert ended == [[False, False], [True, False], [False, True], [True, False]]
        assert [final if final is None else final[0] for final in seen[1].info["final_obs"]] == [2, None, 2, None]
        assert seen[1].info["final_info"]["terminated_reason"].tolist() == ["Counted to the end", None] * 2
