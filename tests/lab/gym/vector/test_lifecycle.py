"""Processes, memory and file descriptors: nothing is left behind, whatever way a vector environment ends."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv
from tests.lab.gym.vector.mocks import CountingEnv
from tests.lab.gym.vector.scripts import ROOT, run_script, start_script

ZEROS = np.zeros((2, 2), np.float32)
CYCLES = int(os.environ.get("SUPERDEX_CYCLES", "3"))
"""How often to create and close; the soak test asks for 200."""


def wait_for_end(pids: list[int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while alive := [pid for pid in pids if is_running(pid)]:
        assert time.monotonic() < deadline, f"still running: {alive}"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_script_without_a_main_guard_fails_at_once_with_one_message(tmp_path: Path) -> None:
    code, out, err = run_script(
        tmp_path,
        """
        from superdex.lab.gym.utils.vector import HybridVectorEnv
        from tests.lab.gym.vector.mocks import CountingEnv

        env = HybridVectorEnv([CountingEnv] * 4, 2)
        """,
    )
    assert code == 1
    assert err.count("Traceback") == 1
    assert err.strip().splitlines()[-1].startswith("RuntimeError: A HybridVectorEnv was constructed in a new process")
    assert '`if __name__ == "__main__":`' in err
    assert not out


@pytest.mark.parametrize("source", ["standard input", "deleted file"])
def test_a_script_that_no_worker_could_import_is_told_so(tmp_path: Path, source: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from pathlib import Path
            from superdex.lab.gym.utils.vector import HybridVectorEnv
            from tests.lab.gym.vector.mocks import CountingEnv

            if __name__ == "__main__":
                Path(sys.argv[1]).unlink()
                HybridVectorEnv([CountingEnv] * 4, 2)
            """
        )
    )
    program = "-" if source == "standard input" else script
    ended = subprocess.run(
        [sys.executable, program, script],
        input=script.read_text(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert ended.stderr.count("Traceback") == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: Workers are spawned, so each of them imports the main module")


def test_a_script_that_ends_without_close_is_quiet(tmp_path: Path) -> None:
    code, out, err = run_script(
        tmp_path,
        """
        from superdex.lab.gym.utils.vector import HybridVectorEnv
        from tests.lab.gym.vector.mocks import CountingEnv

        if __name__ == "__main__":
            env = HybridVectorEnv([CountingEnv] * 4, 2)
            env.reset()
            print(env.num_envs)
        """,
    )
    assert (code, out, err) == (0, "4\n", "")


def test_code_of_a_notebook_works(tmp_path: Path) -> None:
    """Classes and factories that no worker could import."""
    code, out, err = run_script(
        tmp_path,
        """
        source = '''
        import gymnasium, numpy as np
        from superdex.lab.gym.utils.vector import HybridVectorEnv

        class CellEnv(gymnasium.Env):
            observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,))
            def reset(self, *, seed=None, options=None):
                return np.zeros(1, np.float32), {"me": self.__class__}

        with HybridVectorEnv([lambda: CellEnv() for _ in range(2)]) as env:
            print(env.reset()[1]["me"][1] is CellEnv)
        '''
        if __name__ == "__main__":
            import textwrap
            exec(textwrap.dedent(source), globals())
        """,
    )
    assert (code, out, err) == (0, "True\n", "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("fault", ["sleep", "spin"])
def test_workers_end_with_a_killed_parent(tmp_path: Path, fault: str, number: signal.Signals) -> None:
    """Even a worker that is busy in native code and holds the GIL."""
    script = start_script(
        tmp_path,
        f"""
        from functools import partial
        from superdex.lab.gym.utils.vector import HybridVectorEnv
        from tests.lab.gym.vector.mocks import CountingEnv, FaultyEnv

        if __name__ == "__main__":
            env = HybridVectorEnv([CountingEnv, partial(FaultyEnv, "{fault}", "reset")])
            print(*env.call("process_id"), flush=True)
            env.reset()
        """,
    )
    assert script.stdout is not None
    workers = [int(pid) for pid in script.stdout.readline().split()]
    assert len(workers) == 2
    time.sleep(0.2)
    before = sorted(os.listdir("/dev/shm"))
    script.send_signal(number)
    assert script.wait() == -number
    wait_for_end(workers, 5)
    assert script.communicate() == ("", "")
    assert sorted(os.listdir("/dev/shm")) == before


def test_a_worker_sees_the_end_of_a_parent_that_left_a_forked_child(tmp_path: Path) -> None:
    """The child holds the pipes to the worker open."""
    script = start_script(
        tmp_path,
        """
        import os, time
        from superdex.lab.gym.utils.vector import HybridVectorEnv
        from tests.lab.gym.vector.mocks import CountingEnv

        if __name__ == "__main__":
            env = HybridVectorEnv([CountingEnv])
            child = os.fork()
            if child == 0:
                time.sleep(10)
                os._exit(0)
            print(*env.call("process_id"), child, flush=True)
            time.sleep(10)
        """,
    )
    assert script.stdout is not None
    worker, child = [int(pid) for pid in script.stdout.readline().split()]
    script.kill()
    script.wait()
    wait_for_end([worker], 5)
    os.kill(child, signal.SIGKILL)
    script.communicate()


_PLAY = """
from functools import partial
from superdex.lab.gym.utils.vector import HybridVectorEnv
from tests.lab.gym.vector.mocks import CountingEnv, FaultyEnv

if __name__ == "__main__":
    print("starting", flush=True)
    env = HybridVectorEnv([CountingEnv] * 3 + [partial(FaultyEnv, {fault!r}, {when!r})], 2, worker_timeout={timeout})
    env.reset(seed=0)
    print("playing", flush=True)
    while True:
        env.step(env.action_space.sample())
"""


@pytest.mark.parametrize(
    ("fault", "when", "expected"),
    [
        ("value_error", "step", "Raised in worker 1."),
        ("kill", "step", "WorkerError: Worker 1 (environments 2 to 3) was killed by signal 9"),
        ("kill", "constructor", "WorkerError: Worker 1 (environments 2 to 3) was killed by signal 9"),
        ("sleep", "step", "WorkerTimeoutError: Worker 1 (environments 2 to 3) did not reply"),
    ],
)
def test_an_error_that_nobody_catches_is_printed_once(tmp_path: Path, fault: str, when: str, expected: str) -> None:
    """One exception, nothing of the interpreter's exit, nothing of the workers' own."""
    code, _, err = run_script(tmp_path, _PLAY.format(fault=fault, when=when, timeout=2))
    assert code == 1
    assert err.count("Traceback") == (2 if fault == "value_error" else 1), err  # with its cause
    assert "resource_tracker" not in err
    assert expected in err


@pytest.mark.parametrize("moment", ["starting", "playing"])
def test_ctrl_c_in_a_terminal_is_one_keyboard_interrupt(tmp_path: Path, moment: str) -> None:
    """It goes to the whole group of processes, and only the caller takes it."""
    script = start_script(tmp_path, _PLAY.format(fault="", when="", timeout=None))
    assert script.stdout is not None
    while script.stdout.readline().strip() != moment:
        pass
    time.sleep(0.3)
    os.killpg(script.pid, signal.SIGINT)
    _, err = script.communicate(timeout=20)
    assert script.returncode == -signal.SIGINT
    assert err.count("Traceback") == 1, err
    assert err.strip().splitlines()[-1] == "KeyboardInterrupt"


def test_garbage_collection_ends_the_workers() -> None:
    env = HybridVectorEnv([CountingEnv] * 2)
    env.reset()
    workers = list(env.call("process_id"))
    del env
    gc.collect()
    wait_for_end(workers, 10)


def test_an_exception_in_a_with_block_ends_the_workers() -> None:
    workers: list[int] = []

    def train() -> None:
        with HybridVectorEnv([CountingEnv] * 2) as env:
            workers.extend(env.call("process_id"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()
    wait_for_end(workers, 10)


def test_from_a_thread() -> None:
    seen = []

    def use() -> None:
        with HybridVectorEnv([CountingEnv] * 2) as env:
            env.reset(seed=0)
            seen.append(env.step(ZEROS).observation[:, 0].tolist())

    thread = threading.Thread(target=use)
    thread.start()
    thread.join(20)
    assert seen == [[1, 1]]


def test_a_daemon_thread_in_the_middle_of_it_as_the_interpreter_exits(tmp_path: Path) -> None:
    code, out, err = run_script(
        tmp_path,
        """
        import threading
        from superdex.lab.gym.utils.vector import HybridVectorEnv
        from tests.lab.gym.vector.mocks import CountingEnv

        def play():
            env = HybridVectorEnv([CountingEnv] * 4, 2)
            env.reset()
            while True:
                env.step(env.action_space.sample())
                playing.set()

        if __name__ == "__main__":
            playing = threading.Event()
            threading.Thread(target=play, daemon=True).start()
            print(playing.wait(20))
        """,
    )
    assert (code, out, err) == (0, "True\n", "")


def test_two_at_a_time() -> None:
    with HybridVectorEnv([CountingEnv] * 2) as one, HybridVectorEnv([CountingEnv] * 2, 2) as other:
        for env in (one, other, one):
            env.reset(seed=0)
        assert one.step(ZEROS).observation.tolist() == other.step(ZEROS).observation.tolist()


def test_nested_with_blocks() -> None:
    with HybridVectorEnv([CountingEnv] * 2) as outer:
        outer.reset(seed=0)
        with HybridVectorEnv([CountingEnv] * 2, 2) as inner:
            inner.reset(seed=0)
            expected = inner.step(ZEROS)
        assert inner.closed
        assert (outer.step(ZEROS).observation == expected.observation).all()


def nested_factory() -> CountingEnv:
    return CountingEnv(length=HybridVectorEnv([CountingEnv]).num_envs)


def test_a_vector_environment_within_an_environment_of_a_worker() -> None:
    message = r"starts processes, which a daemonic process \(superdex-worker-0\) may not"
    with pytest.raises(RuntimeError, match=message) as caught:
        HybridVectorEnv([nested_factory])
    assert caught.value.__notes__[0] == "Raised by the factory of environment 0."


class DaemonCheck:
    def __call__(self, connection: Connection) -> None:
        try:
            HybridVectorEnv([CountingEnv])
        except RuntimeError as error:
            connection.send(str(error))


def test_from_a_daemonic_process() -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=DaemonCheck(), args=(theirs,), daemon=True)
    process.start()
    assert ours.poll(20)
    assert "HybridVectorEnv starts processes, which a daemonic process" in ours.recv()
    process.join()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking beside threads, which is the test
def test_a_forked_copy_of_the_caller_leaves_the_workers_alone() -> None:
    env = HybridVectorEnv([CountingEnv] * 2)
    env.reset(seed=0)
    child = os.fork()
    if child == 0:
        try:
            env.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with env:
        assert env.step(ZEROS).observation[:, 0].tolist() == [1, 1]


@pytest.mark.parametrize("task", [CountingEnv, CartPoleEnv])
def test_nothing_is_left_of_many_cycles(task: Any) -> None:
    def resources() -> tuple[list[str], int, list[str]]:
        gc.collect()
        descriptors = sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in existing_descriptors())
        return [kind.split(":")[0] for kind in descriptors], threading.active_count(), sorted(os.listdir("/dev/shm"))

    def cycle() -> None:
        with HybridVectorEnv([task] * 8, 4) as env:
            env.reset()
            env.step(env.action_space.sample())

    cycle()  # the first one starts multiprocessing's resource tracker
    before = resources()
    for _ in range(CYCLES):
        cycle()
    assert resources() == before
    assert not multiprocessing.active_children()


def existing_descriptors() -> list[str]:
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]
