"""One rollout, to the bit, however the environments are stepped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import superdex.lab.gym
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.envs.benchmarks import AntEnv, CartPoleEnv, HalfCheetahEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv
from tests.lab.gym.vector.comparing import assert_same

NUM_ENVS = 24
NUM_STEPS = 300
SPLITS = [(1, 24), (2, 12), (3, 8), (8, 3), (24, 1)]

# short episodes, so that both kinds of ends and many resets fall into the rollout
CONFIGS: dict[str, list[Callable[[], MochiEnv]]] = {
    "CartPole": [partial(CartPoleEnv, steps_per_episode=30)],
    "HalfCheetah": [partial(HalfCheetahEnv, steps_per_episode=40)],
    "Ant": [partial(AntEnv, steps_per_episode=60)],
    "mixed": [
        partial(CartPoleEnv, steps_per_episode=30),
        partial(CartPoleEnv, steps_per_episode=30, actuate_on_pole=True),
    ],
}


def factories(name: str, **overrides: Any) -> list[Callable[[], gymnasium.Env]]:
    """24 factories, the configurations taking turns."""
    kinds = CONFIGS[name]
    return [partial(kinds[index % len(kinds)], **overrides) for index in range(NUM_ENVS)]


def rollout(env: Any, num_steps: int = NUM_STEPS) -> Iterator[Any]:
    """What `reset` and every `step` return, for actions that depend on the step alone."""
    rng = np.random.default_rng(7)
    yield env.reset(seed=[1000 + 3 * index for index in range(NUM_ENVS)])
    space = env.single_action_space
    for _ in range(num_steps):
        yield tuple(env.step(rng.uniform(space.low, space.high, env.action_space.shape).astype(space.dtype)))


def reference(env_fns: Sequence[Callable[[], gymnasium.Env]], mode: AutoresetMode) -> list[Any]:
    """The rollout of environments that are stepped alone, in Gymnasium's `SyncVectorEnv`."""
    env = SyncVectorEnv(env_fns, autoreset_mode=mode)
    results = list(rollout(env))
    env.close()
    ends = sum(int((terminated | truncated).sum()) for _, _, terminated, truncated, _ in results[1:])
    assert ends > NUM_ENVS, "the rollout must hold many resets"
    return results


def assert_same_rollout(env: Any, expected: list[Any]) -> None:
    for step, (actual, wanted) in enumerate(zip(rollout(env), expected, strict=True)):
        assert_same(actual, wanted, f"step {step}")


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("name", CONFIGS)
def test_every_way_of_stepping_gives_the_rollout_of_environments_alone(name: str, mode: AutoresetMode) -> None:
    expected = reference(factories(name), mode)
    for num_threads in (1, 2):
        with SceneVectorEnv(factories(name), num_threads=num_threads, autoreset_mode=mode) as env:
            assert {inner.kind for inner in env.inner_backends} == {"native"}
            assert_same_rollout(env, expected)
    splits = SPLITS if mode is AutoresetMode.NEXT_STEP else SPLITS[1:2]
    for num_workers, num_envs_per_worker in splits:
        with HybridVectorEnv(factories(name), num_envs_per_worker, autoreset_mode=mode) as env:
            assert env.num_workers == num_workers
            assert {inner.kind for inner in env.inner_backends} == {"native"}
            assert_same_rollout(env, expected)


@pytest.mark.parametrize("name", CONFIGS)
def test_sharing_scenes_changes_nothing(name: str) -> None:
    expected = reference(factories(name), AutoresetMode.NEXT_STEP)
    unshared = factories(name, use_shared_scenes=False)
    with SceneVectorEnv(unshared) as env:
        assert {inner.kind for inner in env.inner_backends} == {"sequential"}
        assert_same_rollout(env, expected)
    with HybridVectorEnv(unshared, 12) as env:
        assert_same_rollout(env, expected)


def test_two_configurations_in_one_worker_are_two_native_batches() -> None:
    with HybridVectorEnv(factories("mixed"), 12) as env:
        groups = [inner.environments for inner in env.inner_backends]
    assert groups == [(0, 2, 4, 6, 8, 10), (1, 3, 5, 7, 9, 11), (12, 14, 16, 18, 20, 22), (13, 15, 17, 19, 21, 23)]


def test_native_and_sequential_environments_mix_in_one_worker() -> None:
    env_fns = factories("CartPole")
    for index in range(0, NUM_ENVS, 5):
        env_fns[index] = partial(limited_cartpole, limit=7)
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        expected = reference(env_fns, mode)
        with HybridVectorEnv(env_fns, 8, autoreset_mode=mode) as env:
            kinds = [inner.kind for inner in env.inner_backends]
            assert kinds == ["native", "sequential"] * 3
            assert env.inner_backends[1].reason == "wrapped in TimeLimit"
            assert_same_rollout(env, expected)


def limited_cartpole(limit: int) -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(CartPoleEnv(), limit)


def test_the_wrappers_that_gymnasium_adds_do_not_cost_the_native_path() -> None:
    task_ids = [f"superdex_gym/{name}" for name in superdex.lab.gym.TASKS]
    for task_id in task_ids:
        with SceneVectorEnv([partial(gymnasium.make, task_id)] * 3) as env:
            assert [inner.kind for inner in env.inner_backends] == ["native"]
            observations, _ = env.reset(seed=3)
        made = gymnasium.make_vec(task_id, num_envs=3, vectorization_mode="vector_entry_point")
        assert isinstance(made, SceneVectorEnv)
        assert_same(made.reset(seed=3)[0], observations)
        made.close()


def test_results_do_not_change_afterwards() -> None:
    with SceneVectorEnv(factories("Ant")) as scene, HybridVectorEnv(factories("Ant"), 12) as hybrid:
        for env in (scene, hybrid):
            kept, copies = [], []
            for result in rollout(env, 6):
                kept.append(result)
                copies.append(deep_copy(result))
            assert_same(kept, copies)


def deep_copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: deep_copy(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(deep_copy(item) for item in value)
    return value.copy()


def test_without_copy_results_are_views_of_the_next_ones() -> None:
    with SceneVectorEnv(factories("CartPole"), copy=False) as env:
        results = list(rollout(env, 3))
        assert results[-1][0] is results[-2][0]
