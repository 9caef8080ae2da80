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

import numpy as np
import pytest

from superdex.lab.gym.utils.vector import HybridVectorEnv
from tests.lab.gym.vector.mocks import CountingEnv

ROOT = Path(__file__).parents[4]
ZEROS = np.zeros((2, 2), np.float32)


def start_script(tmp_path: Path, source: str) -> subprocess.Popen[str]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(source))
    search = os.pathsep.join([str(ROOT), *sys.path])
    return subprocess.Popen(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONPATH": search},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_script(tmp_path: Path, source: str) -> tuple[int, str, str]:
    script = start_script(tmp_path, source)
    out, err = script.communicate(timeout=20)
    return script.returncode, out, err


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


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    """Even a worker in the middle of a step that never returns."""
    script = start_script(
        tmp_path,
        """
        from functools import partial
        from superdex.lab.gym.utils.vector import HybridVectorEnv
        from tests.lab.gym.vector.mocks import CountingEnv, FaultyEnv

        if __name__ == "__main__":
            env = HybridVectorEnv([CountingEnv, partial(FaultyEnv, "sleep", "reset")])
            print(*env.call("process_id"), flush=True)
            env.reset()
        """,
    )
    assert script.stdout is not None
    workers = [int(pid) for pid in script.stdout.readline().split()]
    assert len(workers) == 2
    time.sleep(0.2)
    script.kill()
    assert script.wait() == -signal.SIGKILL
    wait_for_end(workers, 5)
    script.communicate()


def test_garbage_collection_ends_the_workers() -> None:
    env = HybridVectorEnv([CountingEnv] * 2)
    env.reset()
    workers = list(env.call("process_id"))
    del env
    gc.collect()
    wait_for_end(workers, 2)


def test_an_exception_in_a_with_block_ends_the_workers() -> None:
    workers: list[int] = []

    def train() -> None:
        with HybridVectorEnv([CountingEnv] * 2) as env:
            workers.extend(env.call("process_id"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()
    wait_for_end(workers, 1)


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


def test_two_at_a_time() -> None:
    with HybridVectorEnv([CountingEnv] * 2) as one, HybridVectorEnv([CountingEnv] * 2, 2) as other:
        for env in (one, other, one):
            env.reset(seed=0)
        assert one.step(ZEROS).observation.tolist() == other.step(ZEROS).observation.tolist()


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


def test_nothing_is_left_of_many_cycles() -> None:
    def resources() -> tuple[list[str], int, list[str]]:
        gc.collect()
        descriptors = sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in existing_descriptors())
        return [kind.split(":")[0] for kind in descriptors], threading.active_count(), sorted(os.listdir("/dev/shm"))

    def cycle() -> None:
        with HybridVectorEnv([CountingEnv] * 2, 1) as env:
            env.reset()
            env.step(ZEROS)

    cycle()  # the first one starts multiprocessing's resource tracker
    before = resources()
    for _ in range(10):
        cycle()
    assert resources() == before
    assert not multiprocessing.active_children()


def existing_descriptors() -> list[str]:
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]
