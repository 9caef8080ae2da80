"""A forked child has neither the threads nor the workers of a vector environment: it is told so, and spoils nothing."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv
from superdex.lab.gym.vector.base import BatchedVectorEnv
from tests.lab.gym.vector.comparing import assert_same

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking beside threads: the test

SECONDS = 20

MAKERS: dict[str, Callable[[], BatchedVectorEnv]] = {
    "one thread": partial(SceneVectorEnv, CartPoleEnv, num_envs=4, num_threads=1),
    "threads": partial(SceneVectorEnv, CartPoleEnv, num_envs=64, num_threads=2),
    "workers": partial(HybridVectorEnv, [CartPoleEnv] * 4, 2),
    "workers that are restarted": partial(HybridVectorEnv, [CartPoleEnv] * 4, 2, on_worker_failure="restart"),
}


def zeros(env: BatchedVectorEnv) -> np.ndarray:
    return np.zeros(env.action_space.shape, np.float32)


CALLS: dict[str, Callable[[BatchedVectorEnv], Any]] = {
    "reset": lambda env: env.reset(),
    "step": lambda env: env.step(zeros(env)),
    "call": lambda env: env.call("dt"),
    "call_on": lambda env: env.call_on([1], "dt"),
    "get_attr": lambda env: env.get_attr("dt"),
    "set_attr": lambda env: env.set_attr("mark", 1),
    "render": lambda env: env.render(),
    "capture_state": lambda env: env.capture_state(),
    "np_random": lambda env: env.np_random,
}


def in_a_forked_child(check: Callable[[], None]) -> None:
    """Fail unless `check` passes in a forked child, within `SECONDS`."""
    child = os.fork()
    if child == 0:
        status = 1
        signal.alarm(SECONDS)  # ends a child that hangs
        try:
            check()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("maker", MAKERS)
def test_every_call_is_refused_and_the_parent_goes_on(maker: str) -> None:
    with MAKERS[maker]() as env, MAKERS[maker]() as twin:
        for each in (env, twin):
            each.reset(seed=0)
            each.step(zeros(each))
        state = env.capture_state()

        def check() -> None:
            for call in (*CALLS.values(), lambda env: env.restore_state(state)):
                with pytest.raises(
                    RuntimeError, match=r"is a fork \(\d+\) of the one that made the .*VectorEnv .*spawn"
                ):
                    call(env)
            assert not env.closed
            env.close()
            env.close()
            assert env.closed

        in_a_forked_child(check)
        assert_same(tuple(env.step(zeros(env))), tuple(twin.step(zeros(twin))))


@pytest.mark.parametrize("maker", ["threads", "workers"])
def test_what_the_child_makes_by_itself_works(maker: str) -> None:
    with MAKERS[maker]() as env:
        first, _ = env.reset(seed=0)

        def check() -> None:
            with MAKERS[maker]() as own:
                assert_same(own.reset(seed=0)[0], first)
                own.step(zeros(own))

        in_a_forked_child(check)


def test_the_child_does_not_wait_for_a_thread_that_it_does_not_have() -> None:
    with MAKERS["workers"]() as env:
        inside, leave = threading.Event(), threading.Event()

        def use() -> None:
            with env._turn:  # type: ignore[attr-defined]
                inside.set()
                leave.wait(SECONDS)

        other = threading.Thread(target=use)
        other.start()
        assert inside.wait(SECONDS)

        def check() -> None:
            with pytest.raises(RuntimeError, match="This process is a fork"):
                env.reset()

        in_a_forked_child(check)
        leave.set()
        other.join()


class Closing(CartPoleEnv):
    """Leaves a file when it is closed."""

    marker: Path

    def close(self) -> None:
        super().close()
        self.marker.touch()


def test_closing_in_the_child_does_not_close_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Closing, "marker", tmp_path / "closed", raising=False)
    with SceneVectorEnv(Closing, num_envs=2) as env:
        in_a_forked_child(env.close)
        assert not Closing.marker.exists()
    assert Closing.marker.exists()


def test_an_environment_of_its_own_may_be_stepped_on_in_the_child() -> None:
    """It has no threads; what it does there is not seen in the parent."""
    env = CartPoleEnv()
    first, _ = env.reset(seed=0)
    action = np.ones(1, np.float32)

    def check() -> None:
        for _ in range(3):
            env.step(action)
        other = CartPoleEnv()
        assert_same(other.reset(seed=0)[0], first)
        other.step(action)
        other.close()
        env.close()

    in_a_forked_child(check)
    twin = CartPoleEnv()
    twin.reset(seed=0)
    assert_same(env.step(action)[0], twin.step(action)[0])
