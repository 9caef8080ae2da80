"""A cluster of two nodes on this machine, which all tests here share: it takes seconds to start."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
STORE = 100 * 2**20
"""Bytes of each node's object store."""
QUICK_DETECTION = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_failure_threshold": 5,
}
"""So that the death of a node is known after seconds; by default it takes longer."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[object]:
    """A `ray.cluster_utils.Cluster` to which this process is connected: two nodes of 3 CPUs each."""
    with pytest.MonkeyPatch.context() as patch:
        home = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # Ray puts sockets there: the path must be short
        for name, value in {
            "RAY_TMPDIR": home,
            "HOME": home,
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),  # for environments that tests define
        }.items():
            patch.setenv(name, value)
        patch.delenv("RAY_ADDRESS", raising=False)
        import ray
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 3, "object_store_memory": STORE, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args={**head, "_system_config": QUICK_DETECTION})
        try:
            cluster.add_node(num_cpus=3, object_store_memory=STORE)
            ray.init(address=cluster.address, log_to_driver=False)
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()
            remaining = processes_after_a_while(home)
            shutil.rmtree(home, ignore_errors=True)
        assert not remaining, remaining


def processes_after_a_while(home: str) -> list[str]:
    """The command lines of what still runs in a directory; they get a minute to end."""
    deadline = time.monotonic() + 60
    while True:
        running = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it has just ended
                running.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        remaining = [command for command in running if home in command]
        if not remaining or time.monotonic() > deadline:
            return remaining
        time.sleep(0.1)
