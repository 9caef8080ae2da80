"""`SceneVectorEnv` when a task fails: it starts anew by a reset, or closes, and is never somewhere in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded

from superdex.lab.gym.envs import SceneManager
from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv
from tests.lab.gym.vector.comparing import assert_same


class FailingEnv(CartPoleEnv):
    """Fails in the hook whose name stands in `failing`, or as it is closed, or made for the `limit`th time."""

    failing = ""
    limit = 100
    made = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        type(self).made += 1
        if type(self).made > self.limit:
            raise ZeroDivisionError("in the constructor")
        super().__init__(*args, **kwargs)

    def _fail(self, hook: str) -> None:
        if type(self).failing == hook:
            raise ZeroDivisionError(hook)

    def _reset(self, *args: Any) -> Any:
        result = super()._reset(*args)
        self._fail("reset")
        return result

    def _apply_action(self, *args: Any) -> Any:
        result = super()._apply_action(*args)
        self._fail("apply")
        return result

    def _compute_reward_terms(self, *args: Any) -> Any:
        self._fail("reward")
        return super()._compute_reward_terms(*args)

    def close(self) -> None:
        super().close()
        self._fail("close")


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("failing", "limit", "made"):
        monkeypatch.setattr(FailingEnv, name, getattr(FailingEnv, name))
    yield
    assert SceneManager.get_instance("FailingEnv").scene_count == 0


def rollout(env: SceneVectorEnv, num_steps: int = 15) -> list[Any]:
    actions = np.random.default_rng(0).uniform(-1, 1, (num_steps, *env.action_space.shape)).astype(np.float32)
    return [env.reset(seed=5), *(tuple(env.step(each)) for each in actions)]


@pytest.mark.parametrize("hook", ["reset", "apply", "reward"])
@pytest.mark.parametrize("private", [False, True])
def test_after_a_failure_it_begins_anew(hook: str, private: bool) -> None:
    with SceneVectorEnv(FailingEnv, 3, steps_per_episode=4, use_shared_scenes=not private) as env:
        expected = rollout(env)
        FailingEnv.failing = hook
        with pytest.raises(ZeroDivisionError, match=hook):
            rollout(env)
        FailingEnv.failing = ""
        with pytest.raises(ResetNeeded, match="after a call that failed"):
            env.step(np.zeros(env.action_space.shape, np.float32))
        with pytest.raises(ResetNeeded, match="without a mask"):
            env.reset(options={"reset_mask": np.array([True, False, True])})
        assert_same(rollout(env), expected)


@pytest.mark.parametrize("private", [False, True])
def test_an_error_in_close_is_raised_once_all_are_closed(private: bool) -> None:
    env = SceneVectorEnv(FailingEnv, 3, use_shared_scenes=not private)
    FailingEnv.failing = "close"
    with pytest.raises(ZeroDivisionError, match="close"):
        env.close()
    env.close()
    with pytest.raises(ClosedEnvironmentError):
        env.reset()


def test_an_error_in_a_constructor_closes_what_was_made() -> None:
    FailingEnv.limit = 2
    FailingEnv.failing = "close"
    with pytest.raises(ZeroDivisionError, match="in the constructor"):
        SceneVectorEnv(FailingEnv, 3)


def test_a_mask_that_covers_just_one_part_of_a_mixed_batch() -> None:
    """With a seed for each: environments 1 and 3 step one after another, the rest as a native batch."""
    alone = [lambda i=i: FailingEnv(use_shared_scenes=i % 2 == 0) for i in range(4)]
    with SceneVectorEnv(alone) as env:
        env.reset(seed=0)
        for chosen in ([1, 3], [0, 2], [1], [0, 1, 2, 3]):
            mask = np.isin(np.arange(4), chosen)
            observation, _ = env.reset(seed=[10, 11, 12, 13], options={"reset_mask": mask})
            expected, _ = env.reset(seed=[10, 11, 12, 13])
            assert_same(observation[mask], expected[mask])
