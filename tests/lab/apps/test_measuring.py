"""Interleaving, and the actions drawn ahead."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from superdex.lab.apps.bench.laps import Lap
from superdex.lab.apps.bench.measuring import Actions, Plan, Runner, alternate, interleave


def test_actions_fill_the_space_and_are_never_the_same():
    space = Box(np.array([-3, 0], np.float32), np.array([3, 1], np.float32))
    drawn = Actions(space, seed=0)
    actions = np.array([drawn.draw() for _ in range(2000)])

    assert actions.dtype == space.dtype
    assert all(space.contains(action) for action in actions)
    assert len(np.unique(actions, axis=0)) == len(actions)
    np.testing.assert_allclose(actions.mean(axis=0), [0, 0.5], atol=0.1)
    np.testing.assert_array_equal(actions[0], Actions(space, seed=0).draw())


def test_interleave_swaps_who_goes_first_from_block_to_block():
    calls: list[str] = []

    def side(name: str, seconds: float) -> Callable[[], float]:
        return lambda: calls.append(name) or seconds

    plan = Plan(rounds=2, num_steps=5)
    laps = interleave(
        {"a": side("a", 2.0), "b": side("b", 3.0)},
        10,
        plan,
        block_steps=2,
        before=lambda count: calls.append(f"{count}("),
        after=lambda: calls.append(")"),
    )

    assert "".join(calls) == "2(ab)2(ba)1(ab)" * 2
    assert laps == {"a": [(50, 6.0)] * 2, "b": [(50, 9.0)] * 2}


def test_lap_ends_when_the_first_side_has_taken_its_time():
    plan = Plan(rounds=1, min_seconds=5)

    laps = interleave({"a": lambda: 2.0, "b": lambda: 9.0}, 1, plan, 4, before=lambda count: None, after=lambda: None)

    assert laps == {"a": [(12, 6.0)], "b": [(12, 27.0)]}


class CountingVectorEnv(gymnasium.vector.VectorEnv):
    num_envs = 3
    action_space = Box(0, 1, (3, 1))

    def __init__(self) -> None:
        self.steps = 0

    def reset(self, **kwargs: Any) -> Any:
        return None, {}

    def step(self, actions: Any) -> Any:
        self.steps += 1


def test_alternate_gives_every_runner_as_many_laps():
    plan = Plan(rounds=4, num_steps=5, warmup_steps=2)
    runners = {name: Runner(CountingVectorEnv(), plan) for name in "ab"}

    laps = alternate(runners, plan)

    for name, runner in runners.items():
        assert [lap.env_steps for lap in laps[name]] == [15] * 4
        assert runner.env.steps == 22  # type: ignore[attr-defined]


class Logging:
    """A contestant that notes its turns, of steps that take 0.05 s each."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def run(self, num_steps: int) -> Lap:
        self.log.append(self.name)
        return Lap(num_steps, 0.05 * num_steps)


def test_those_that_belong_together_keep_their_order_while_all_rotate():
    log: list[str] = []
    runners = {name: Logging(name, log) for name in "abcd"}

    alternate(runners, Plan(rounds=4, num_steps=1), together="ac")

    assert "".join(log) == "acbd" + "bdac" + "dacb" + "acbd"


def test_lap_has_ten_steps_however_long_they_take():
    laps = alternate({"a": Logging("a", [])}, Plan(rounds=2, min_seconds=0.2))
    assert [lap.env_steps for lap in laps["a"]] == [10, 10]
    laps = alternate({"a": Logging("a", [])}, Plan(rounds=2, min_seconds=1))
    assert [lap.env_steps for lap in laps["a"]] == [20, 20]
