"""Ray is started where there is none, shut down by who started it, and named where it is not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import ray

from superdex.lab.gym.distributed import RayVectorEnv
from superdex.lab.gym.utils.vector import WorkerError
from tests.lab.gym.vector.mocks import CountingEnv

SCRIPT = """
import ray
from superdex.lab.gym.distributed import RayVectorEnv
from superdex.lab.gym.envs.benchmarks import CartPoleEnv

first = RayVectorEnv([CartPoleEnv])
second = RayVectorEnv([CartPoleEnv], num_cpus_per_worker=0.1)
first.reset(seed=0)
first.close()
assert ray.is_initialized(), "the second still needs it"
second.reset(seed=0)
second.close()
assert not ray.is_initialized(), "who started it shuts it down"

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
    assert done.stdout.splitlines()[-1].startswith("There is no Ray cluster at 127.0.0.1:1 ([Errno 111] Conn")


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


def test_a_ray_client_is_refused() -> None:
    with pytest.raises(
        ValueError, match="must be that of a cluster which this machine is a node of, got 'ray://host:1'"
    ):
        RayVectorEnv([CountingEnv], address="ray://host:1")


def test_without_ray_the_error_names_the_extra() -> None:
    done = run(MISSING)
    assert done.stderr.splitlines()[-1].endswith('which is not installed: pip install "superdex-gym[ray]"')
