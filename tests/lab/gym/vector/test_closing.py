"""A vector environment that is closed in the middle of a call says so, whichever call it is.

The workers are objects of this process, so that the moment of the close is certain.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv
from superdex.lab.gym.vector import pooled
from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.errors import closed_meanwhile
from superdex.lab.gym.vector.host import EnvHost
from superdex.lab.gym.vector.pooled import PooledVectorEnv, in_turn
from superdex.lab.gym.vector.requests import RESET, STEP
from tests.lab.gym.vector.mocks import CountingEnv, FaultyEnv

SECONDS = 20.0


class ShownEnv(CartPoleEnv):
    """Can be shown on any machine."""

    def render(self) -> None:
        pass


class LocalPool:
    """A `Pool` of one worker, in this process."""

    max_restarts = 0

    def __init__(self, host: EnvHost) -> None:
        self.host = host
        self.settled = True
        self.restarts = [0]
        self.interrupted = threading.Event()
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    @property
    def closed(self) -> bool:
        return self.interrupted.is_set()

    def restart(self, index: int) -> None:
        raise AssertionError("no worker has died")

    def greet(self, indices: Iterable[int] | None = None) -> list[bytes | None]:
        return [pickle.dumps(self.host.description)]

    def exchange(self, requests: Sequence[bytes | None], fail_fast: bool = True) -> list[bytes | None]:
        self.before()
        if self.closed:
            raise closed_meanwhile()
        (request,) = requests
        assert request is not None
        reply = self.answer(request[:1], request[1:])
        self.after()
        return [reply]

    def answer(self, kind: bytes, request: bytes) -> bytes:
        if kind == RESET:
            return pickle.dumps(self.host.reset(request))
        if kind == STEP:
            return pickle.dumps(self.host.step(self.actions))
        return self.host.handlers[kind](request)[1:]

    def interrupt(self) -> None:
        self.interrupted.set()


class LocalVectorEnv(PooledVectorEnv):
    """Takes its workers' results from a `LocalPool`."""

    _pool: LocalPool

    def __init__(self, env_fn: Callable[[], Any] = ShownEnv) -> None:
        factories = self._plan([env_fn] * 2, 2, 0, "raise", 1, None)
        self._pool = LocalPool(EnvHost(slice(0, 2), factories, 1, AutoresetMode.NEXT_STEP))
        self._hold(lambda grace: None)
        self._set_up()

    @in_turn
    def _set_up(self) -> None:
        self._meet(2, AutoresetMode.NEXT_STEP, copy=True)
        self._buffers = self._pool.host.out = StepBuffers.allocate(self.observation_space, 2)
        self._actions = self._pool.actions = np.zeros(self.action_space.shape, np.float32)  # type: ignore[attr-defined]
        self._receivers = [self]  # type: ignore[list-item]

    def receive(self, message: bytes) -> Columns:
        return pickle.loads(message)


CALLS: dict[str, Callable[[LocalVectorEnv], Any]] = {
    "reset": lambda env: env.reset(seed=0),
    "step": lambda env: env.step(np.zeros((2, 1), np.float32)),
    "call": lambda env: env.call("get_wrapper_attr", "dt"),
    "call_on": lambda env: env.call_on([1], "dt"),
    "get_attr": lambda env: env.get_attr("dt"),
    "set_attr": lambda env: env.set_attr("mark", 1),
    "render": lambda env: env.render(),
    "capture_state": lambda env: env.capture_state(),
    "restore_state": lambda env: env.restore_state(STATES[0]),
    "np_random": lambda env: env.np_random,
    "np_random_seed": lambda env: env.np_random_seed,
}
STATES: list[Any] = []


@pytest.fixture
def env() -> LocalVectorEnv:
    env = LocalVectorEnv()
    env.reset(seed=0)
    STATES[:] = [env.capture_state()]
    return env


def close_elsewhere(env: PooledVectorEnv) -> threading.Thread:
    """Have another thread close, and return once it has begun to."""
    thread = threading.Thread(target=env.close)
    thread.start()
    assert env._pool.interrupted.wait(SECONDS)  # type: ignore[attr-defined]
    return thread


def assert_told(env: LocalVectorEnv, call: str) -> None:
    with pytest.raises(ClosedEnvironmentError, match="closed by another thread, or a signal handler, in the middle"):
        CALLS[call](env)


def test_the_calls_are_all_there_are() -> None:
    public = {name for name in vars(pooled.BatchedVectorEnv) if not name.startswith("_")}
    assert set(CALLS) == {name for name in public if callable(getattr(pooled.BatchedVectorEnv, name))} | {
        "np_random",
        "np_random_seed",
    }


@pytest.mark.parametrize("call", CALLS)
def test_while_it_waits_for_workers(env: LocalVectorEnv, call: str) -> None:
    """The closing thread lets it leave before it ends the workers."""
    left = []

    def wait() -> None:
        closing.append(threading.Thread(target=env.close))
        closing[0].start()
        assert env._pool.interrupted.wait(SECONDS)
        left.append(env.closed)

    closing: list[threading.Thread] = []
    env._pool.before = wait
    start = time.monotonic()
    assert_told(env, call)
    closing[0].join(SECONDS)
    assert time.monotonic() - start < pooled._LEAVE_SECONDS / 2
    assert left == [False]
    assert env.closed


@pytest.mark.parametrize("call", CALLS)
def test_by_a_signal_handler(env: LocalVectorEnv, call: str) -> None:
    env._pool.before = env.close
    assert_told(env, call)
    with pytest.raises(ClosedEnvironmentError, match="is closed, by close"):
        CALLS[call](env)


@pytest.mark.parametrize("call", CALLS)
def test_once_workers_have_replied(env: LocalVectorEnv, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread that has waited long enough: what is left of the call finds nothing, or needs nothing any more."""
    monkeypatch.setattr(pooled, "_LEAVE_SECONDS", 0.0)
    env._pool.after = lambda: close_elsewhere(env).join(SECONDS)
    if call in ("reset", "step", "set_attr", "capture_state", "restore_state"):
        assert_told(env, call)
    else:
        assert len(CALLS[call](env)) in (1, 2)
    assert env.closed


@pytest.mark.parametrize("call", CALLS)
def test_as_the_interpreter_exits(env: LocalVectorEnv, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the main thread has ended: another one, which is a daemon, follows it."""
    env._pool.before = env.close
    monkeypatch.setattr(threading, "main_thread", threading.Thread)
    with pytest.raises(SystemExit):
        CALLS[call](env)
    monkeypatch.undo()


def test_a_failure_in_the_meantime_is_told_as_itself() -> None:
    env = LocalVectorEnv(partial(FaultyEnv, "value_error", "reset"))
    with pytest.raises(ValueError, match="bad joint 3"):
        env.reset()
    assert env.closed
    with pytest.raises(ClosedEnvironmentError, match="is closed, by close"):
        env.reset()


def test_threads_take_turns(env: LocalVectorEnv) -> None:
    other = threading.Thread(target=CALLS["step"], args=(env,))
    inside: list[int] = []

    def before() -> None:
        inside.append(threading.get_ident())
        if len(inside) == 1:
            other.start()
            other.join(0.2)
            assert len(inside) == 1, "the other one waits"

    env._pool.before = before
    env.step(np.zeros((2, 1), np.float32))
    other.join(SECONDS)
    assert inside == [threading.get_ident(), other.ident]


def test_worker_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that waits for one hears of the close at once, not when it looks for deaths the next time."""
    monkeypatch.setattr(pooled, "_CLOSE_SECONDS", 0.2)
    monkeypatch.setattr("superdex.lab.gym.vector.pool._LIVENESS_SECONDS", 600.0)
    env = HybridVectorEnv([partial(FaultyEnv, "sleep", "reset"), CountingEnv])
    threading.Timer(0.3, env.close).start()
    start = time.monotonic()
    with pytest.raises(ClosedEnvironmentError, match="closed by another thread"):
        env.reset()
    assert time.monotonic() - start < pooled._LEAVE_SECONDS
    assert env.closed


def test_no_worker_is_started_again_after_the_close() -> None:
    with HybridVectorEnv([CountingEnv], on_worker_failure="restart") as env:
        pool = env._pool
    with pytest.raises(ClosedEnvironmentError, match="closed by another thread"):
        pool.restart(0)
    assert pool.restarts == [0]
