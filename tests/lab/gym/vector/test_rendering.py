"""Frames of vector environments: of whom is asked, from where it lives, and without a trace in the rollout."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv
from superdex.lab.gym.vector.base import BatchedVectorEnv
from tests.lab.gym.vector.comparing import assert_same

FRAMES: dict[str, Any] = {"render_mode": "rgb_array", "render_size": (48, 36), "steps_per_episode": 5}
NUM_ENVS = 6


class WatchedEnv(CartPoleEnv):
    """Tells what was rendered, and by which renderer."""

    def render(self) -> np.ndarray | None:
        frame = super().render()
        if self.cfg.render_camera is not None:
            raise RuntimeError("the lens is broken")
        return frame

    def renderer_id(self) -> tuple[int, int] | None:
        return None if self._renderer is None else (os.getpid(), id(self._renderer))


FACTORIES = [partial(WatchedEnv, FRAMES)] * NUM_ENVS
KINDS: dict[str, Callable[..., BatchedVectorEnv]] = {
    "scene": SceneVectorEnv,
    "hybrid": partial(HybridVectorEnv, num_envs_per_worker=3),
}


def played(envs: Any, num_steps: int = 4, *, render: bool = False) -> list[Any]:
    """What a rollout returned; with `render`, some frames are asked for in between."""
    envs.action_space.seed(0)
    results = [envs.reset(seed=0)]
    for step in range(num_steps):
        results.append(tuple(envs.step(envs.action_space.sample())))
        if render:
            envs.render(environments=[step % NUM_ENVS, (step + 2) % NUM_ENVS])
    return results


@pytest.fixture(scope="module", params=KINDS)
def envs(request: pytest.FixtureRequest) -> Iterator[BatchedVectorEnv]:
    with KINDS[request.param](FACTORIES) as envs:
        yield envs


@pytest.fixture(scope="module")
def expected() -> tuple[Any, ...]:
    """The frames of the same environments, each stepped alone, after the same steps."""
    alone = SyncVectorEnv(FACTORIES)
    played(alone)
    frames = alone.render()
    alone.close()
    assert frames is not None
    return frames


def test_rollout_is_the_same_to_the_bit_with_and_without(envs: BatchedVectorEnv) -> None:
    with SceneVectorEnv(CartPoleEnv, NUM_ENVS, steps_per_episode=5) as plain:
        assert_same(played(envs, 12, render=True), played(plain, 12))


def test_all_frames_are_those_of_environments_alone(envs: BatchedVectorEnv, expected: tuple[Any, ...]) -> None:
    played(envs)
    assert_same(envs.render(), expected)
    assert len({frame.tobytes() for frame in expected}) == NUM_ENVS
    assert_same(envs.render(), expected)


@pytest.mark.parametrize(
    ("chosen", "indices"),
    [
        ([4, 0, 2], [4, 0, 2]),
        ((5,), [5]),
        (np.array([1, 3]), [1, 3]),
        (np.array([False, True, False, False, True, True]), [1, 4, 5]),
        ([True, False, False, False, False, False], [0]),
        ([], []),
        (np.zeros(NUM_ENVS, np.bool_), []),
    ],
)
def test_chosen_frames_come_in_the_order_asked_for(
    envs: BatchedVectorEnv, expected: tuple[Any, ...], chosen: Any, indices: list[int]
) -> None:
    played(envs)
    assert_same(envs.render(chosen), tuple(expected[index] for index in indices))


@pytest.mark.parametrize(
    ("chosen", "error", "message"),
    [
        ([0, 6], ValueError, "no environment 6: they are numbered from 0 to 5"),
        ([-1], ValueError, "no environment -1"),
        ([2, 3, 2], ValueError, r"can be chosen once, got \[2, 3, 2\]"),
        (np.ones(5, np.bool_), ValueError, r"one boolean for each of the 6, got shape \(5,\)"),
        ([0.5], TypeError, r"a boolean mask with one entry per environment, got \[0.5\]"),
        (3, TypeError, "got 3"),
        ("all", TypeError, "got 'all'"),
    ],
)
def test_impossible_choice_is_refused(envs: BatchedVectorEnv, chosen: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        envs.render(chosen)
    assert len(envs.render()) == NUM_ENVS


@pytest.mark.parametrize("kind", KINDS)
def test_each_worker_has_one_renderer_and_only_if_it_is_asked(kind: str) -> None:
    broken = partial(WatchedEnv, FRAMES, render_camera="track")
    with KINDS[kind]([*FACTORIES[:5], broken]) as envs:
        envs.reset(seed=0)
        envs.render([0, 2])
        made = envs.call("renderer_id")
        assert made[0] == made[2] is not None
        assert (made[1], *made[3:]) == (None,) * 4
        with pytest.raises(RuntimeError, match="the lens is broken") as caught:
            envs.render([1, 5])
        assert any("environment 5" in note for note in caught.value.__notes__)
        assert len(envs.render([1, 3, 4])) == 3  # all goes on
        made = envs.call("renderer_id")
        assert made[0] == made[1] == made[2]
        assert made[3] == made[4] == made[5]
        assert (made[0] == made[3]) == (kind == "scene")
        envs.step(envs.action_space.sample())


def test_render_after_close_is_refused() -> None:
    envs = SceneVectorEnv(FACTORIES)
    envs.close()
    with pytest.raises(Exception, match="is closed"):
        envs.render([0])
