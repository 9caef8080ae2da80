"""After a call that was refused, all goes on as if it had not been made: to the bit, as in a twin that saw none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv
from superdex.lab.gym.vector.base import BatchedVectorEnv
from tests.lab.gym.vector.comparing import assert_same
from tests.lab.gym.vector.mocks import CountingEnv

NUM_ENVS = 6
TASK = partial(CartPoleEnv, steps_per_episode=7)
KINDS: dict[str, Callable[[], BatchedVectorEnv]] = {
    "hybrid, sequential": lambda: HybridVectorEnv([partial(CountingEnv, 7)] * NUM_ENVS, 3),
    "hybrid, native": lambda: HybridVectorEnv([TASK] * NUM_ENVS, 3),
    "hybrid, mixed": lambda: HybridVectorEnv([TASK, partial(TASK, use_shared_scenes=False)] * 3, 3),
    "hybrid, restart": lambda: HybridVectorEnv([TASK] * NUM_ENVS, 3, on_worker_failure="restart", worker_timeout=60),
    "scene": lambda: SceneVectorEnv([TASK] * NUM_ENVS),
}

Pair = tuple[BatchedVectorEnv, BatchedVectorEnv]


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two equal environments; only the first sees bad calls."""
    make = KINDS[request.param]
    with make() as env, make() as twin:
        for each in (env, twin):
            each.reset(seed=1)
        yield env, twin


def step_with(change: Callable[[np.ndarray], Any]) -> Callable[[BatchedVectorEnv], None]:
    """A step with good actions that are then made bad."""
    return lambda env: env.step(change(np.zeros(env.action_space.shape, np.float32))) and None


def with_nan(actions: np.ndarray) -> np.ndarray:
    actions[4] = np.nan
    return actions


CALLS: dict[str, tuple[Callable[[BatchedVectorEnv], Any], type[Exception]]] = {
    "seeds too few": (lambda env: env.reset(seed=[1, 2]), ValueError),
    "seeds too many": (lambda env: env.reset(seed=list(range(7))), ValueError),
    "seed negative": (lambda env: env.reset(seed=-1), ValueError),
    "seed of float": (lambda env: env.reset(seed=1.0), TypeError),  # type: ignore[arg-type]
    "seed of text": (lambda env: env.reset(seed="1"), TypeError),
    "seeds with a float": (lambda env: env.reset(seed=[1, 2, 3, 4, 5, 6.5]), TypeError),  # type: ignore[list-item]
    "seeds as floats": (lambda env: env.reset(seed=np.zeros(6)), TypeError),
    "seeds of two dimensions": (lambda env: env.reset(seed=np.zeros((6, 1), int)), TypeError),
    "options no dict": (lambda env: env.reset(options=[1]), TypeError),  # type: ignore[arg-type]
    "options with a bad mask": (lambda env: env.reset(options={"reset_mask": np.ones(3, np.bool_)}), ValueError),
    "actions None": (step_with(lambda actions: None), ValueError),
    "actions as a list": (step_with(np.ndarray.tolist), ValueError),
    "actions too few": (step_with(lambda actions: actions[:-1]), ValueError),
    "actions flat": (step_with(np.ndarray.ravel), ValueError),
    "actions of objects": (step_with(lambda actions: actions.astype(object)), ValueError),
    "actions complex": (step_with(lambda actions: actions.astype(complex)), ValueError),
    "actions as text": (step_with(lambda actions: actions.astype(str)), ValueError),
    "actions with NaN": (step_with(with_nan), ValueError),
    "actions infinite": (step_with(lambda actions: actions - np.inf), ValueError),
    "method unknown": (lambda env: env.call("no_such_method"), AttributeError),
    "method with bad arguments": (lambda env: env.call("has_wrapper_attr"), TypeError),
    "method that goes behind": (lambda env: env.call("reset", seed=3), ValueError),
    "attribute unknown": (lambda env: env.get_attr("no_such_attribute"), AttributeError),
    "attribute read-only": (lambda env: env.set_attr("unwrapped", 1), AttributeError),
    "values too few": (lambda env: env.set_attr("label", [1, 2]), ValueError),
    "values too many": (lambda env: env.set_attr("label", list(range(7))), ValueError),
}
UNSENDABLE: dict[str, tuple[Callable[[BatchedVectorEnv], Any], type[Exception]]] = {
    "options": (lambda env: env.reset(options={"lazy": (i for i in range(3))}), TypeError),
    "arguments": (lambda env: env.call("has_wrapper_attr", (i for i in range(3))), TypeError),
    "value": (lambda env: env.set_attr("label", (i for i in range(3))), TypeError),
}


def assert_unimpressed(pair: Pair, bad: Callable[[BatchedVectorEnv], Any], error: type[Exception]) -> None:
    env, twin = pair
    with pytest.raises(error):
        bad(env)
    for _ in range(3):
        actions = np.random.default_rng(0).uniform(-1, 1, env.action_space.shape).astype(np.float32)
        assert_same(tuple(env.step(actions)), tuple(twin.step(actions)))


@pytest.mark.parametrize("name", CALLS)
def test_a_bad_call_changes_nothing(pair: Pair, name: str) -> None:
    assert_unimpressed(pair, *CALLS[name])


@pytest.mark.parametrize("pair", [kind for kind in KINDS if "hybrid" in kind.lower()], indirect=True)
@pytest.mark.parametrize("name", UNSENDABLE)
def test_what_cannot_be_sent_changes_nothing(pair: Pair, name: str) -> None:
    assert_unimpressed(pair, *UNSENDABLE[name])


def test_then_a_reset_is_the_same_too(pair: Pair) -> None:
    env, twin = pair
    for seed in (None, 5):
        assert_same(env.reset(seed=seed), twin.reset(seed=seed))
        actions = np.zeros(env.action_space.shape, np.float32)
        assert_same(tuple(env.step(actions)), tuple(twin.step(actions)))
