"""What goes wrong in a worker reaches the caller as one clear exception, soon, and nothing stays behind."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.utils.vector import HybridVectorEnv, WorkerError, WorkerTimeoutError
from superdex.lab.gym.vector.process import WorkerProcess, signals_held
from superdex.lab.gym.vector.transport import SharedBuffer
from superdex.lab.gym.vector.worker import Job
from tests.lab.gym.vector.mocks import CountingEnv, FaultyEnv
from tests.lab.gym.vector.scripts import run_script

ZEROS = np.zeros((4, 2), np.float32)


class SlowImport:
    """A factory that takes 2.5 s to load."""

    def __call__(self) -> CountingEnv:
        return CountingEnv()

    def __reduce__(self) -> Any:
        return _load_slowly, ()


class ClosingEnv(CountingEnv):
    """Creates `marker` when it is closed."""

    def __init__(self, marker: str) -> None:
        super().__init__()
        self.marker = marker

    def close(self) -> None:
        Path(self.marker).touch()


def _load_slowly() -> SlowImport:
    time.sleep(2.5)
    return SlowImport()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """The block takes no longer than that, and leaves no process behind."""
    start = time.monotonic()
    yield
    elapsed = time.monotonic() - start
    assert elapsed < seconds, f"took {elapsed:.1f} s"
    assert not multiprocessing.active_children()


def faulty(fault: str, when: str) -> list[Any]:
    """Four factories; the environment at index 2 is faulty."""
    return [CountingEnv, CountingEnv, partial(FaultyEnv, fault, when), CountingEnv]


def assert_closed(env: HybridVectorEnv) -> None:
    assert env.closed
    with pytest.raises(ClosedEnvironmentError, match=r"is closed, by close\(\) or after an error"):
        env.step(ZEROS)
    start = time.monotonic()
    env.close()
    assert time.monotonic() - start < 0.1


def run(fault: str, when: str, k: int = 2, **kwargs: Any) -> None:
    with HybridVectorEnv(faulty(fault, when), k, **kwargs) as env:
        try:
            env.reset(seed=0)
            for _ in range(6):
                env.step(ZEROS)
        finally:
            if when != "close":
                assert_closed(env)


@pytest.mark.parametrize(("when", "k"), [("reset", 2), ("step", 1), ("step", 4), ("close", 2)])
def test_an_exception_keeps_its_type_and_names_the_environment(when: str, k: int) -> None:
    with within(10), pytest.raises(ValueError, match="bad joint 3") as caught:
        run("value_error", when, k)
    assert str(caught.value) == "bad joint 3"
    assert caught.value.__notes__ == ["Raised in environment 2.", f"Raised in worker {2 // k}."]
    cause = caught.value.__cause__
    assert isinstance(cause, WorkerError)
    assert (cause.worker_index, cause.environments, cause.exit_code) == (2 // k, (2,), None)
    assert "in the worker process" in str(cause)
    assert "in value_error" in cause.worker_traceback


def test_an_exception_in_a_constructor() -> None:
    with within(10), pytest.raises(ValueError, match="bad joint 3") as caught:
        run("value_error", "constructor")
    assert caught.value.__notes__[0] == "Raised by the factory of environment 2."


def test_an_exception_that_cannot_be_rebuilt() -> None:
    with (
        within(10),
        pytest.raises(WorkerError, match=r"cannot be rebuilt here: .*UnfriendlyError: no way back") as caught,
    ):
        run("unfriendly", "step")
    assert (caught.value.worker_index, caught.value.environments, caught.value.exit_code) == (1, (2,), None)
    assert "Raised in environment 2." in str(caught.value.__cause__)


@pytest.mark.parametrize("fault", ["value_error", "system_exit"])
def test_whatever_a_factory_raises_the_environments_made_before_are_closed(fault: str, tmp_path: Any) -> None:
    marker = tmp_path / "closed"
    factories = [partial(ClosingEnv, str(marker)), partial(FaultyEnv, fault, "constructor")]
    with within(10), pytest.raises((ValueError, WorkerError), match=r"bad joint 3|SystemExit: 3"):
        HybridVectorEnv(factories, 2)
    assert marker.exists()


def test_an_environment_that_exits_the_interpreter_does_not_exit_the_callers() -> None:
    with within(10), pytest.raises(WorkerError, match=r"Worker 1 .* cannot be rebuilt here: SystemExit: 3") as caught:
        run("system_exit", "step")
    assert "in system_exit" in caught.value.worker_traceback


@pytest.mark.parametrize("when", ["constructor", "reset", "step"])
def test_a_killed_worker(when: str) -> None:
    message = r"Worker 1 \(environments 2 to 3\) was killed by signal 9 \(SIGKILL\), often a sign that memory ran out"
    with within(10), pytest.raises(WorkerError, match=message) as caught:
        run("kill", when)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.worker_index, error.environments, error.exit_code, error.signal) == (1, (2, 3), -9, 9)
        assert str(error) == str(caught.value)
        assert error.worker_traceback == ""  # SIGKILL leaves no time for last words


def test_a_crash_in_native_code_says_where(capfd: pytest.CaptureFixture[str]) -> None:
    with within(10), pytest.raises(WorkerError, match=r"Worker 1 .* was killed by signal 11 \(SIGSEGV\)\.") as caught:
        run("crash", "step")
    assert " in crash\n" in caught.value.worker_traceback
    (note,) = caught.value.__notes__
    assert note.startswith("In the worker process:\nFatal Python error: Segmentation fault")
    assert capfd.readouterr() == ("", "")


def test_a_worker_that_exits() -> None:
    with within(10), pytest.raises(WorkerError, match=r"Worker 1 .* ended with exit code 7"):
        run("exit", "step")


@pytest.mark.parametrize("call", ["step", "reset", "get_attr"])
def test_a_worker_killed_between_calls(call: str) -> None:
    env = HybridVectorEnv([CountingEnv] * 4, 2)
    env.reset()
    victim = env.call("process_id")[3]
    os.kill(victim, signal.SIGKILL)
    time.sleep(0.2)
    arguments = {"step": (ZEROS,), "reset": (), "get_attr": ("steps",)}[call]
    with within(5), pytest.raises(WorkerError, match="killed by signal 9"):
        getattr(env, call)(*arguments)
    assert_closed(env)


def test_a_worker_killed_while_another_is_busy() -> None:
    """The death is noticed although the first worker never replies."""
    env = HybridVectorEnv([partial(FaultyEnv, "sleep", "reset"), CountingEnv])
    victim = env.call("process_id")[1]
    threading.Timer(0.3, os.kill, (victim, signal.SIGKILL)).start()
    with within(8), pytest.raises(WorkerError, match=r"Worker 1 .* killed by signal 9"):
        env.reset()


def test_close_does_not_wait_for_a_stuck_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("superdex.lab.gym.vector.pooled._CLOSE_SECONDS", 0.5)
    with within(5):
        env = HybridVectorEnv([partial(FaultyEnv, "sleep", "close"), CountingEnv])
        env.close()


@pytest.mark.parametrize(
    ("fault", "when"),
    [("sleep", "constructor"), ("sleep", "step"), ("spin", "step"), ("stop", "reset"), ("half_a_reply", "step")],
)
def test_a_worker_that_never_replies_is_killed_and_reported(fault: str, when: str) -> None:
    message = r"Worker 1 \(environments 2 to 3\) did not reply within worker_timeout = 2 s and was killed"
    with within(20), pytest.raises(WorkerTimeoutError, match=message) as caught:
        run(fault, when, worker_timeout=2)
    error = caught.value
    assert (error.worker_index, error.environments, error.exit_code) == (1, (2, 3), -9)
    if fault == "stop":
        assert error.worker_traceback == ""
    else:
        assert f" in {fault}\n" in error.worker_traceback
        assert error.__notes__ == [f"In the worker process:\n{error.worker_traceback.rstrip()}"]


@pytest.mark.parametrize("megabytes", [0, 10])
def test_a_stopped_worker_holds_nothing_up(megabytes: int) -> None:
    """Be it that the request fits in the pipe, or that it is cut off in the middle."""
    env = HybridVectorEnv([CountingEnv] * 4, 2, worker_timeout=2)
    os.kill(env.call("process_id")[0], signal.SIGSTOP)
    with within(20), pytest.raises(WorkerTimeoutError, match=r"Worker 0 .* did not reply"):
        env.call("raises", bytes(megabytes << 20))
    assert_closed(env)


def test_a_request_and_a_reply_of_many_megabytes() -> None:
    with HybridVectorEnv([CountingEnv] * 2, worker_timeout=30) as env:
        env.set_attr("label", ["x" * (20 << 20), "y"])
        assert [len(label) for label in env.get_attr("label")] == [20 << 20, 1]


def test_a_timeout_counts_from_when_the_process_is_up() -> None:
    """And has imported what the factories need."""
    with HybridVectorEnv([SlowImport()], worker_timeout=2) as env:
        env.reset(seed=0)


class NeverImported(SlowImport):
    """A factory that takes for ever to load, and creates `marker` first."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return _load_for_ever, (self.marker,)


def _load_for_ever(marker: str) -> None:
    Path(marker).touch()
    time.sleep(1000)


def test_a_worker_that_does_not_get_to_its_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit, which is of a minute otherwise, is shortened once the worker is in the middle of its import."""
    marker = tmp_path / "importing"

    def shorten() -> None:
        while not marker.exists():
            time.sleep(0.01)
        monkeypatch.setattr("superdex.lab.gym.vector.pool._START_SECONDS", 0.4)

    hastening = threading.Thread(target=shorten)
    hastening.start()
    message = (
        r"Worker 0 \(environment 0\) did not start within 0.5 s and was killed. It was importing the main module or"
        r" what the factories need, which may take 0.4 s, or worker_timeout if that is longer. Import less there"
    )
    with within(60), pytest.raises(WorkerTimeoutError, match=message) as caught:
        HybridVectorEnv([NeverImported(str(marker))], worker_timeout=0.5)
    hastening.join()
    assert caught.value.exit_code == -9
    assert " in _load_for_ever\n" in caught.value.worker_traceback


def test_a_worker_that_is_asked_where_it_is_before_it_can_tell() -> None:
    """The signal that asks would end it, if it was not held."""
    with signals_held():
        worker = WorkerProcess(Job(0, 1, 0, AutoresetMode.NEXT_STEP, SharedBuffer(), SharedBuffer(), SharedBuffer()))
    error = worker.stuck(1.0, 2.0)
    worker.dispose()
    assert str(error).startswith("Worker 0 (environment 0) did not start within 2 s and was killed.")
    assert error.exit_code == -9


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), True, "1"])
def test_bad_timeouts(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"worker_timeout must be"):
        HybridVectorEnv([CountingEnv], worker_timeout=bad)


def test_an_interrupt_closes_and_reaches_the_caller_alone(capfd: pytest.CaptureFixture[str]) -> None:
    env = HybridVectorEnv([partial(FaultyEnv, "sleep", "reset"), CountingEnv])
    pids = env.call("process_id")
    for pid in pids:  # as a terminal would: to everyone
        os.kill(pid, signal.SIGHUP)
        os.kill(pid, signal.SIGINT)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with within(8), pytest.raises(KeyboardInterrupt):
        env.reset()
    assert_closed(env)
    assert capfd.readouterr() == ("", "")


def test_a_factory_that_cannot_be_pickled() -> None:
    lock = threading.Lock()
    with within(1), pytest.raises(TypeError, match=r"env_fns\[3\] cannot be sent to a worker process: .*lock"):
        HybridVectorEnv([CountingEnv, CountingEnv, CountingEnv, lambda: (lock, CountingEnv())[1]], 2)


def test_a_factory_that_cannot_be_imported_in_the_worker(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here_only.py").write_text("def make():\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import here_only  # type: ignore[import-not-found]

    monkeypatch.undo()  # workers get the path as it is when they start
    with within(10), pytest.raises(ModuleNotFoundError, match="here_only"):
        HybridVectorEnv([here_only.make])


def test_a_factory_that_makes_no_environment() -> None:
    with (
        within(10),
        pytest.raises(TypeError, match=r"must return a gymnasium.Env, got None[^$]*factory of environment 1"),
    ):
        HybridVectorEnv([CountingEnv, lambda: None], 2)  # type: ignore[list-item, return-value]


_SHORTAGE = """
import resource, sys
from functools import partial
from superdex.lab.gym.utils.vector import HybridVectorEnv, SharedMemoryError
from tests.lab.gym.vector.mocks import CountingEnv, InfoEnv, MockEnv, MockSpec
import numpy as np, multiprocessing

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))  # for files, and so for shared memory
    try:
        {use}
    except SharedMemoryError as error:
        print(error.worker_index, error.environments, error)
    print(multiprocessing.active_children())
"""


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (
            "HybridVectorEnv([partial(MockEnv, MockSpec(observation_shape=(500, 500)))] * 4, 2)",
            "None () No space for 4000",
        ),
        (
            'HybridVectorEnv([lambda size=size: InfoEnv({"large": np.zeros(size)}) for size in (3, 200_000)]).reset()',
            "1 (1,) No space for 3200",
        ),
    ],
    ids=["the batch", "infos"],
)
def test_a_shortage_of_shared_memory(tmp_path: Path, use: str, expected: str) -> None:
    """A real one: the system refuses to reserve the space."""
    code, out, err = run_script(tmp_path, _SHORTAGE.format(use=use))
    assert err == ""
    assert code == 0
    message, children = out.splitlines()
    assert message.startswith(expected)
    assert "bytes of shared memory between the processes (File too large). Use fewer or smaller environments" in message
    assert children == "[]"
