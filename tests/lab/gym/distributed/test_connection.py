"""Ray is started where there is none, shut down by who started it, and named where it is not installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest
import ray

from superdex.lab.gym.distributed import RayVectorEnv, connection
from superdex.lab.gym.distributed.connection import Connection, connect, disconnect
from superdex.lab.gym.utils.vector import WorkerError
from tests.lab.gym.vector.mocks import CountingEnv

SCRIPT = """
import ray
from superdex.lab.gym.distributed import RayVectorEnv
from superdex.lab.gym.utils.vector import WorkerError
from superdex.lab.gym.envs.benchmarks import CartPoleEnv

first = RayVectorEnv([CartPoleEnv])
second = RayVectorEnv([CartPoleEnv], num_cpus_per_worker=0.1)
first.reset(seed=0)
first.close()
assert ray.is_initialized(), "the second still needs it"
second.reset(seed=0)
second.close()
assert not ray.is_initialized(), "who started it shuts it down"

half = {"num_cpus_per_worker": 0.5}
stale, unused = RayVectorEnv([CartPoleEnv], **half), RayVectorEnv([CartPoleEnv], **half)
stale.reset(seed=0)
ray.shutdown()
fresh = RayVectorEnv([CartPoleEnv])
unused.close()
try:
    stale.step(stale.action_space.sample())
except WorkerError as error:
    print(error)
assert stale.closed
fresh.reset(seed=0)
fresh.close()
assert not ray.is_initialized(), "who started the second one shuts it down"

try:
    RayVectorEnv([CartPoleEnv], address="127.0.0.1:1")
except ConnectionError as error:
    print(error)
"""

MISSING = """
import sys
sys.modules["ray"] = None
import superdex.lab.gym.distributed
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    home = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    own = {"HOME": home, "RAY_TMPDIR": home, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | own
    try:
        command = [sys.executable, "-c", script]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def test_who_started_ray_shuts_it_down() -> None:
    done = run(SCRIPT)
    assert done.returncode == 0, done.stderr
    *_, stale, nowhere = done.stdout.splitlines()
    assert stale == "The connection to Ray was shut down, and with it all workers."
    assert nowhere.startswith("There is no Ray cluster at 127.0.0.1:1 ([Errno 111] Conn")


@pytest.mark.usefixtures("cluster")
def test_a_connection_that_was_there_stays() -> None:
    RayVectorEnv([CountingEnv]).close()
    assert ray.is_initialized()


@pytest.mark.usefixtures("cluster")
def test_a_connection_that_is_shut_down_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    env = RayVectorEnv([CountingEnv])
    env.reset()
    actors = env._actors
    with monkeypatch.context() as patch:
        patch.setattr(ray, "is_initialized", lambda: False)
        with pytest.raises(WorkerError, match="The connection to Ray was shut down, and with it all workers"):
            env.step(np.zeros((1, 2), np.float32))
        assert env.closed
    actors.shutdown(grace=0.0)  # in truth they were gone


@pytest.mark.usefixtures("cluster")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking beside threads, which is the test
def test_a_forked_copy_of_the_caller_leaves_the_workers_alone() -> None:
    with RayVectorEnv([CountingEnv] * 2, 2) as env:
        env.reset(seed=0)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with pytest.raises(RuntimeError, match="This process is a fork"):
                    env.call("process_id")
                env.close()
                status = 0
            finally:
                os._exit(status)
        assert wait_for(child) == 0
        assert env.step(np.zeros((2, 2), np.float32)).observation[:, 0].tolist() == [1, 1]


def wait_for(child: int) -> int:
    """The exit code of a forked process, which gets half a minute."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_finalizer_may_disconnect_while_ray_is_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same thread, as the garbage collector runs it."""
    errors: list[BaseException] = []

    def init(address: str | None) -> None:
        disconnect(Connection(os.getpid(), "node", "job"))
        raise ConnectionError("no more than a test")

    def connecting() -> None:
        try:
            connect(None)
        except BaseException as error:
            errors.append(error)

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    thread = threading.Thread(target=connecting, daemon=True)
    thread.start()
    thread.join(30)
    assert [str(error) for error in errors] == ["no more than a test"]


NO_NODE = "must be that of a cluster which this machine is a node of, got 'ray://host:1'"


def test_a_ray_client_is_refused() -> None:
    with pytest.raises(ValueError, match=NO_NODE):
        RayVectorEnv([CountingEnv], address="ray://host:1")


@pytest.mark.parametrize("address", [None, "auto"])
def test_a_ray_client_is_refused_that_is_in_the_environment(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://host:1")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ValueError, match=NO_NODE):
        RayVectorEnv([CountingEnv], address=address)


def test_a_connection_to_a_ray_client_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(connection.ray_client, "is_connected", lambda: True)
    with pytest.raises(ValueError, match="it is connected to a Ray Client server"):
        RayVectorEnv([CountingEnv])


def test_without_ray_the_error_names_the_extra() -> None:
    done = run(MISSING)
    assert done.stderr.splitlines()[-1].endswith('which is not installed: pip install "superdex-gym[ray]"')
