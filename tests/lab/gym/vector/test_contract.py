"""What the specification and Gymnasium's interface say, sentence by sentence."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from superdex.lab.gym.utils.vector import BatchedStepResult, HybridVectorEnv
from tests.lab.gym.vector.comparing import assert_same
from tests.lab.gym.vector.mocks import CountingEnv, MockEnv, MockSpec
from tests.lab.gym.vector.split import SplitVectorEnv

ZEROS = np.zeros((6, 2), np.float32)


@pytest.fixture(scope="module")
def shared() -> Iterator[HybridVectorEnv]:
    """Six environments in three workers, for tests that leave it usable."""
    with HybridVectorEnv([partial(CountingEnv, 3)] * 6, num_envs_per_worker=2) as env:
        yield env


@pytest.fixture
def env(shared: HybridVectorEnv) -> HybridVectorEnv:
    shared.reset(seed=0)
    return shared


def split(**kwargs: Any) -> SplitVectorEnv:
    return SplitVectorEnv([partial(CountingEnv, 3)] * 6, 2, **kwargs)


def test_shapes(env: HybridVectorEnv) -> None:
    observations, infos = env.reset()
    assert observations.shape == env.observation_space.shape == (6, 2)
    assert infos["steps"].tolist() == [0] * 6
    result = env.step(ZEROS)
    assert isinstance(result, BatchedStepResult)
    observation, reward, terminated, truncated, info = result
    assert result._fields == ("observation", "reward", "terminated", "truncated", "info")
    assert observation.shape == (6, 2)
    assert (reward.shape, reward.dtype) == ((6,), np.float64)
    assert (terminated.shape, terminated.dtype) == ((6,), np.bool_)
    assert (truncated.shape, truncated.dtype) == ((6,), np.bool_)
    assert info["steps"].tolist() == [1] * 6


def test_properties(env: HybridVectorEnv) -> None:
    assert (env.num_envs, env.num_workers, env.num_envs_per_worker) == (6, 3, 2)
    single = CountingEnv()
    assert env.single_observation_space == single.observation_space
    assert env.single_action_space == single.action_space
    assert env.observation_space.shape == (6, 2)
    assert env.action_space.shape == (6, 2)
    assert env.metadata == {**single.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
    assert env.render_mode == "rgb_array"
    assert isinstance(env, VectorEnv)
    assert env.unwrapped is env
    assert len(set(env.call("process_id"))) == 3
    assert [inner.environments for inner in env.inner_backends] == [(0, 1), (2, 3), (4, 5)]
    assert {inner.kind for inner in env.inner_backends} == {"sequential"}


def test_reasons_are_indexed_by_environment(env: HybridVectorEnv) -> None:
    for _ in range(3):
        result = env.step(ZEROS)
    assert result.terminated.all()
    assert result.info["terminated_reason"].tolist() == ["Counted to the end"] * 6


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (None, "takes a NumPy array of shape \\(6, 2\\), got NoneType"),
        ([[0.0, 0.0]] * 6, "got list. Convert it by np.asarray\\(actions, dtype=np.float32\\)"),
        (0.0, "got float"),
        (np.zeros((5, 2), np.float32), "shape \\(6, 2\\), one row per environment, got shape \\(5, 2\\)"),
        (np.zeros(12, np.float32), "got shape \\(12,\\)"),
        (np.zeros((6, 2), object), "dtype float32, got object"),
        (np.zeros((6, 2), complex), "got complex128, which does not convert"),
        (np.full((6, 2), "a"), "got <U1"),
    ],
)
def test_step_refuses_anything_but_an_array_of_the_right_shape(
    env: HybridVectorEnv, actions: Any, message: str
) -> None:
    env.step(ZEROS)
    with pytest.raises(ValueError, match=message):
        env.step(actions)
    assert env.step(ZEROS).observation[:, 0].tolist() == [2] * 6


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_step_refuses_nan_and_infinity_before_anything_is_stepped(env: HybridVectorEnv, bad: float) -> None:
    actions = ZEROS.copy()
    actions[[1, 4], 1] = bad
    with pytest.raises(ValueError, match=r"2 environment\(s\) hold NaN or infinity: environment 1, 4\. Nothing was"):
        env.step(actions)
    assert env.step(ZEROS).observation[:, 0].tolist() == [1] * 6


def test_large_actions_pass_and_are_converted() -> None:
    env = split()
    env.reset(seed=0)
    largest = float(np.finfo(np.float32).max)
    env.step(np.full((6, 2), 1e300))
    assert [float(env.last_action[0]) for env in env.envs] == [largest] * 6
    env.step(np.full((6, 2), 1.5e38))  # their sum overflows
    env.step(np.full((6, 2), 7, dtype=np.int64))
    assert env.envs[0].last_action.dtype == np.float32


def test_integer_actions_must_fit() -> None:
    env = SplitVectorEnv([partial(CountingEnv, 3, "int32")] * 2, 1)
    env.reset(seed=0)
    env.step(np.full((2, 2), 5, np.int64))
    assert env.envs[0].last_action.dtype == np.int32
    with pytest.raises(ValueError, match="do not fit in int32: environment 1"):
        env.step(np.array([[0, 0], [0, 2**40]]))
    with pytest.raises(ValueError, match="dtype int32, got float64"):
        env.step(np.zeros((2, 2)))


def test_an_environment_may_keep_its_action(env: HybridVectorEnv) -> None:
    env.step(ZEROS + 1)
    kept = env.get_attr("last_action")
    env.step(ZEROS)
    assert_same(kept[0], np.ones(2, np.float32))
    in_process = split()
    in_process.reset(seed=0)
    actions = ZEROS + 1
    in_process.step(actions)
    actions[:] = 5
    assert_same(in_process.envs[0].last_action, np.ones(2, np.float32))


def test_divisibility_is_required() -> None:
    message = "^The total number of environments must be divisible by the number of environments per process.$"
    with pytest.raises(ValueError, match=message):
        HybridVectorEnv([CountingEnv] * 5, num_envs_per_worker=2)


@pytest.mark.parametrize("context", ["fork", multiprocessing.get_context("forkserver")])
def test_the_context_is_always_spawn(context: Any) -> None:
    with (
        pytest.warns(RuntimeWarning, match='by "spawn"; context .fork.* is ignored') as caught,
        HybridVectorEnv([CountingEnv], context=context) as env,
    ):
        env.reset()
    assert caught[0].filename == __file__


@pytest.mark.parametrize("context", ["spawn", multiprocessing.get_context("spawn")])
def test_spawn_may_be_asked_for(context: Any) -> None:
    HybridVectorEnv([CountingEnv], context=context).close()


class SpacesEnv(CountingEnv):
    def __init__(self, **spaces: gymnasium.Space) -> None:
        super().__init__()
        self.__dict__.update(spaces)


@pytest.mark.parametrize(
    ("spaces", "message"),
    [
        ({"observation_space": Dict(a=Discrete(2))}, "observation space of environment 1 must be a Box, got Dict"),
        ({"action_space": Discrete(3)}, r"action space of environment 1 must be a Box, got Discrete\(3\). Put the env"),
    ],
)
def test_spaces_must_be_box(spaces: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HybridVectorEnv([CountingEnv, partial(SpacesEnv, **spaces)], num_envs_per_worker=1)


@pytest.mark.parametrize("k", [1, 2])
def test_spaces_must_be_the_same(k: int) -> None:
    other = partial(SpacesEnv, action_space=Box(-2, 1, (2,)))
    with pytest.raises(RuntimeError, match=r"same action space, but environment 1 has Box.* and environment 0 has"):
        HybridVectorEnv([CountingEnv, other], k)


def test_there_are_no_reset_masks(env: HybridVectorEnv) -> None:
    message = (
        "^Reset mask is not supported for this vectorization. "
        "Use Gymnasium's AsyncVectorEnv or SyncVectorEnv directly for selective resets.$"
    )
    options = {"reset_mask": np.ones(6, np.bool_)}
    with pytest.raises(ValueError, match=message):
        env.reset(options=options)
    assert set(options) == {"reset_mask"}
    env.step(ZEROS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env_fns": []}, "at least one factory"),
        ({"env_fns": CountingEnv}, "a sequence of factories, one per environment, got a single callable"),
        ({"env_fns": [CountingEnv, 3]}, r"env_fns\[1\] must be a function .* got int"),
        ({"env_fns": [CountingEnv()]}, r"env_fns\[0\] must be a function .* got CountingEnv"),
        ({"num_envs_per_worker": 0}, "num_envs_per_worker must be at least 1, got 0"),
        ({"num_envs_per_worker": 1.0}, r"num_envs_per_worker must be an int, got 1.0 \(float\)"),
        ({"num_envs_per_worker": True}, "num_envs_per_worker must be an int, got True"),
        ({"num_threads_per_worker": -1}, "num_threads_per_worker must be at least 0, got -1"),
        ({"autoreset_mode": "Sometimes"}, "autoreset_mode must be an AutoresetMode or one of 'NextStep', 'SameStep'"),
    ],
)
def test_bad_constructions(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        HybridVectorEnv(**{"env_fns": [CountingEnv], **arguments})


def test_autoreset_mode_by_value() -> None:
    with HybridVectorEnv([partial(CountingEnv, 1)], autoreset_mode="SameStep") as env:
        assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        env.reset()
        assert env.step(ZEROS[:1]).info["final_info"]["steps"].tolist() == [1]


def draws(env: VectorEnv, seed: Any = None) -> list[float]:
    return env.reset(seed=seed)[0][:, 1].tolist()


def test_seeds(env: HybridVectorEnv) -> None:
    alone = [np.random.default_rng(7 + i).random() for i in range(6)]
    assert draws(env, 7) == alone
    for seeds in (list(range(7, 13)), tuple(range(7, 13)), np.arange(7, 13), np.arange(7, 13, dtype=np.uint8)):
        assert draws(env, seeds) == alone
    assert draws(env, np.int64(7)) == alone


def test_seed_sequence(env: HybridVectorEnv) -> None:
    calls = [draws(env, 1), draws(env), draws(env), draws(env, 1)]
    assert all(len(set(call)) == 6 for call in calls)
    assert len({tuple(call) for call in calls}) == 3
    assert calls[3] == calls[0]


def test_some_seeds_may_be_none(env: HybridVectorEnv) -> None:
    draws(env, 1)
    first, second = draws(env, [5, None, 5, None, 5, None]), draws(env, [5, None, 5, None, 5, None])
    assert first[::2] == second[::2] == [np.random.default_rng(5).random()] * 3
    assert not set(first[1::2]) & set(second[1::2])


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        ([1, 2], ValueError, "6 environments, got 2 seeds"),
        (np.arange(7), ValueError, "6 environments, got 7 seeds"),
        (-1, ValueError, "seed must not be negative, got -1"),
        ([1, 2, 3, -4, 5, 6], ValueError, r"seed\[3\] must not be negative, got -4"),
        (np.array([1, 2, 3, -4, 5, 6]), ValueError, r"seed\[3\] must not be negative"),
        (True, TypeError, "got True"),
        (1.0, TypeError, "must be None, an int, or a list, tuple or 1-D integer array .* got 1.0"),
        ("abc", TypeError, "got 'abc'"),
        ([1, 2, 3, 4, 5, 6.0], TypeError, r"seed\[5\] must be an int or None, got 6.0 \(float\)"),
        ([1, 2, 3, 4, 5, True], TypeError, r"seed\[5\] must be an int or None, got True"),
        (np.arange(6.0), TypeError, r"got an array of float64, shape \(6,\)"),
        (np.zeros((6, 1), int), TypeError, r"shape \(6, 1\)"),
    ],
)
def test_bad_seeds_change_nothing(env: HybridVectorEnv, seed: Any, error: type[Exception], message: str) -> None:
    env.step(ZEROS)
    with pytest.raises(error, match=message):
        env.reset(seed=seed)
    assert env.step(ZEROS).observation[:, 0].tolist() == [2] * 6


@pytest.mark.parametrize("options", [[], "fast", 3])
def test_bad_options_change_nothing(env: HybridVectorEnv, options: Any) -> None:
    env.step(ZEROS)
    with pytest.raises(TypeError, match="options must be None or a dict"):
        env.reset(options=options)
    with pytest.raises(TypeError, match=r"The `options` of reset\(\) cannot be sent to another process"):
        env.reset(options={"generator": (i for i in range(3))})
    assert env.step(ZEROS).observation[:, 0].tolist() == [2] * 6


@pytest.mark.parametrize("make", [split, None])
def test_options_are_never_changed(env: HybridVectorEnv, make: Any) -> None:
    """Neither for the caller nor for the next environment, though these environments change what they get."""
    target = env if make is None else make()
    options = {"taken": 1, "deep": [1]}
    for _ in range(2):
        target.reset(options=options)
        assert options == {"taken": 1, "deep": [1]}


def test_reset_comes_first() -> None:
    env = split()
    with pytest.raises(ResetNeeded, match="Call reset"):
        env.step(ZEROS)
    with pytest.raises(ResetNeeded, match="without a mask"):
        env.reset(options={"reset_mask": np.arange(6) < 3})
    env.reset(options={"reset_mask": np.ones(6, np.bool_)})
    env.step(ZEROS)


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        ([True] * 6, TypeError, "must be a NumPy array of bool, got list"),
        (np.ones(6), TypeError, "got an array of float64"),
        (np.ones(5, np.bool_), ValueError, r"shape \(6,\), got \(5,\)"),
        (np.zeros(6, np.bool_), ValueError, "True for at least one environment"),
    ],
)
def test_bad_masks(mask: Any, error: type[Exception], message: str) -> None:
    env = split()
    env.reset()
    with pytest.raises(error, match=message):
        env.reset(options={"reset_mask": mask})


def test_without_autoreset_an_ended_environment_must_be_reset() -> None:
    with HybridVectorEnv([partial(CountingEnv, n) for n in (2, 3)], autoreset_mode=AutoresetMode.DISABLED) as env:
        env.reset()
        env.step(ZEROS[:2])
        env.step(ZEROS[:2])
        with pytest.raises(ResetNeeded, match=r"environments \[0\] have ended and autoreset is disabled"):
            env.step(ZEROS[:2])
        assert env.call("process_id")  # nothing was stepped, nothing was closed
        env.reset()
        assert env.step(ZEROS[:2]).observation[:, 0].tolist() == [1, 1]


def test_call_and_attributes_are_those_of_sync_vector_env(env: HybridVectorEnv) -> None:
    sync = SyncVectorEnv([partial(CountingEnv, 3)] * 6)
    sync.reset(seed=0)
    for name in ("length", "steps", "np_random_seed", "render_mode", "draw"):
        assert_same(env.get_attr(name), sync.get_attr(name))
    assert_same(env.render(), sync.render())
    assert_same(env.np_random_seed, sync.np_random_seed)
    assert [rng.random() for rng in env.np_random] == [rng.random() for rng in sync.np_random]
    env.set_attr("label", "all")
    assert env.get_attr("label") == ("all",) * 6
    env.set_attr("label", list("abcdef"))
    assert env.get_attr("label") == tuple("abcdef")


def test_some_environments_are_called(env: HybridVectorEnv) -> None:
    """Those that are named, in their order; workers without one of them do nothing."""
    pids = env.call("process_id")
    assert env.call_on([5, 0], "process_id") == (pids[5], pids[0])
    assert env.call_on(np.array([False, True, False, False, True, True]), "has_wrapper_attr", "label") == (True,) * 3
    assert env.call_on(None, "steps") == env.call("steps") == (0,) * 6
    assert env.call_on([], "raises", "never called") == ()
    with pytest.raises(KeyError, match="no joint") as caught:
        env.call_on([1, 4], "raises", message="no joint")
    assert caught.value.__notes__[0] == "Raised in environment 1."
    for bad, error in (([6], ValueError), ([1, 1], ValueError), ([True] * 5, ValueError), ("2", TypeError)):
        with pytest.raises(error):
            env.call_on(bad, "steps")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"use step\(\) itself"):
        env.call_on([0], "step", ZEROS[0])
    assert env.step(ZEROS).observation[:, 0].tolist() == [1] * 6


def test_bad_calls_leave_it_usable(env: HybridVectorEnv) -> None:
    env.step(ZEROS)
    with pytest.raises(AttributeError, match="no_such_method"):
        env.call("no_such_method")
    with pytest.raises(AttributeError, match="no_such_attribute"):
        env.get_attr("no_such_attribute")
    with pytest.raises(KeyError, match="my message") as caught:
        env.call("raises", "my message")
    assert "Raised in environment 0." in caught.value.__notes__
    with pytest.raises(ValueError, match="6 environments, got 2 values"):
        env.set_attr("label", [1, 2])
    with pytest.raises(TypeError, match=r"The arguments of call\('raises'\) cannot be sent"):
        env.call("raises", (i for i in range(3)))
    with pytest.raises(ValueError, match=r"use step\(\) itself"):
        env.call("step", ZEROS[0])
    assert env.step(ZEROS).observation[:, 0].tolist() == [2] * 6


def test_results_are_the_callers_to_keep(env: HybridVectorEnv) -> None:
    results = [env.step(ZEROS) for _ in range(3)]
    assert [result.observation[0, 0] for result in results] == [1, 2, 3]
    assert [result.reward[0] for result in results] == [1, 2, 3]
    assert [result.terminated[0] for result in results] == [False, False, True]
    assert [result.info["steps"][0] for result in results] == [1, 2, 3]


def test_results_are_views_if_asked_for() -> None:
    with HybridVectorEnv([CountingEnv] * 2, 2, copy=False) as env:
        env.reset()
        first, second = env.step(ZEROS[:2]), env.step(ZEROS[:2])
        assert np.shares_memory(first.observation, second.observation)
        assert first.observation[0, 0] == 2
        assert first.info["steps"][0] == 1  # infos are never views
    assert second.observation[0, 0] == 2  # the memory outlives the workers


def test_observations_of_the_wrong_shape_are_refused() -> None:
    class WrongEnv(CountingEnv):
        def _observation(self) -> np.ndarray:
            return np.zeros(1)

    env = SplitVectorEnv([CountingEnv, WrongEnv], 1)
    with pytest.raises(ValueError, match=r"shape \(1,\), but the observation space says \(2,\)") as caught:
        env.reset()
    assert caught.value.__notes__ == ["Raised in environment 1."]


def test_close_is_final_and_may_be_repeated() -> None:
    with HybridVectorEnv([CountingEnv] * 2) as env:
        env.reset()
        env.close()
        env.close()
        assert env.closed
        for call in (env.reset, env.render, partial(env.step, ZEROS[:2]), partial(env.set_attr, "label", 1)):
            with pytest.raises(ClosedEnvironmentError, match="This HybridVectorEnv is closed"):
                call()
        with pytest.raises(ClosedEnvironmentError):
            env.get_attr("steps")


def test_wrapped_and_registered_environments() -> None:
    """`gym.make`d environments with wrappers, by a vector wrapper around ours."""
    make = partial(gymnasium.make, "MountainCarContinuous-v0")
    actual, expected = HybridVectorEnv([make] * 4, 2), SyncVectorEnv([make] * 4)
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(actual)
    with actual:
        assert_same(wrapped.reset(seed=3)[0], expected.reset(seed=3)[0])
        for _ in range(5):
            actions = expected.action_space.sample()
            assert_same(wrapped.step(actions)[0], expected.step(actions)[0])


def test_shared_factories_are_sent_once() -> None:
    """A closure over a large array costs one copy per worker, not one per environment."""
    from superdex.lab.gym.vector.startup import pickle_factories

    weights = np.zeros(100_000)
    factories = [lambda: (weights, MockEnv(MockSpec())) for _ in range(10)]
    assert len(pickle_factories(factories, slice(0, 10))) < 1_000_000
