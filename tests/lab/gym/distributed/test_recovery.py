"""An actor or a node that dies costs the episodes of its environments and nothing else."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import AutoresetMode
from ray.util import remove_placement_group

from superdex.lab.gym.distributed import PlacementError, RayVectorEnv
from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv, WorkerError, WorkerTimeoutError
from tests.lab.gym.distributed.acting import actions, kill, steps
from tests.lab.gym.distributed.conftest import STORE
from tests.lab.gym.vector.comparing import assert_same
from tests.lab.gym.vector.mocks import CountingEnv, FaultyEnv

pytestmark = pytest.mark.usefixtures("cluster")

POLE = partial(CartPoleEnv, steps_per_episode=9)
Restarting = partial(RayVectorEnv, on_worker_failure="restart")
HASTY = {"scheduling_timeout": 3.0}


def kill_process(env: HybridVectorEnv, worker: int) -> None:
    os.kill(env._pool._workers[worker].process.pid, signal.SIGKILL)  # type: ignore[attr-defined]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def step_until(env: RayVectorEnv, condition: Callable[[], bool]) -> None:
    def stepped() -> bool:
        env.step(np.zeros(env.action_space.shape, np.float32))
        return condition()

    wait_until(stepped)


def test_deaths_cost_what_they_cost_with_worker_processes() -> None:
    """The same deaths before the same steps give the same results in all environments, lost ones included."""
    results = []
    for kind, killed in ((RayVectorEnv, kill), (HybridVectorEnv, kill_process)):
        with kind([POLE] * 4, 2, autoreset_mode=AutoresetMode.SAME_STEP, on_worker_failure="restart") as env:
            results.append([env.reset(seed=3)])
            for step in range(14):
                if step in (4, 12):
                    killed(env, 1)
                results[-1].append(tuple(env.step(actions(env, step))))
            assert env.worker_restarts == (0, 2)
    assert results[0][5][3].tolist() == [False, False, True, True]
    assert_same(*results)


def test_a_node_that_dies_takes_its_workers_only(cluster: Any) -> None:
    """Of two batches that fill three nodes, one finds no room for its worker; once it has ended, the other does."""
    node = cluster.add_node(num_cpus=3, object_store_memory=STORE)
    lost_node = node.node_id
    with Restarting([POLE] * 6, 2) as env, Restarting([CountingEnv] * 3, num_cpus_per_worker=2, **HASTY) as large:
        large.reset()
        results = [env.reset(seed=3), *steps(env, 0, 4)]
        worker = env.worker_nodes.index(lost_node)
        cluster.remove_node(node, allow_graceful=False)
        lost = (
            rf"Worker {large.worker_nodes.index(lost_node)} .* died, and there is no room for its successor. 3 workers"
        )
        with pytest.raises(PlacementError, match=lost):
            step_until(large, lambda: False)
        assert large.closed
        results += steps(env, 4, 9)
        assert lost_node not in env.worker_nodes
        assert env.worker_restarts == tuple(int(w == worker) for w in range(3))
    with HybridVectorEnv([POLE] * 6, 2, on_worker_failure="restart") as hybrid:
        expected = [hybrid.reset(seed=3), *steps(hybrid, 0, 4)]
        kill_process(hybrid, worker)
        assert_same(results, expected + steps(hybrid, 4, 9))


def test_a_death_is_raised_with_what_ray_knows() -> None:
    with RayVectorEnv([CountingEnv] * 4, 2) as env:
        env.reset()
        os.kill(env.call("process_id")[3], signal.SIGKILL)
        with pytest.raises(
            WorkerError, match=r"Worker 1 \(environments 2 to 3\) died on node \w+. Ray says: "
        ) as caught:
            env.step(np.zeros((4, 2), np.float32))
        assert caught.value.worker_index == 1
        assert caught.value.environments == (2, 3)
        assert env.closed


def test_a_call_is_repeated_and_attributes_are_set_again_up_to_a_limit() -> None:
    with Restarting([CountingEnv] * 2, max_worker_restarts=1) as env:
        env.set_attr("label", ["a", "b"])
        env.reset(seed=0)
        env.step(np.zeros((2, 2), np.float32))
        os.kill(env.call("process_id")[1], signal.SIGKILL)
        assert env.get_attr("label") == ("a", "b")
        assert env.step(np.zeros((2, 2), np.float32)).truncated.tolist() == [False, True]
        kill(env, 1)
        with pytest.raises(WorkerError, match="Worker 1") as caught:
            env.step(np.zeros((2, 2), np.float32))
        assert caught.value.__notes__ == ["It was restarted 1 times; max_worker_restarts = 1."]


def test_a_reservation_that_was_removed_is_not_waited_for() -> None:
    with Restarting([CountingEnv], scheduling_timeout=600.0) as env:
        env.reset()
        pool = env._actors
        assert isinstance(pool._not_up(0), WorkerTimeoutError)
        remove_placement_group(pool._placement._group)
        with pytest.raises(PlacementError, match=r"Worker 0 \(environment 0\) died, .* was removed") as caught:
            step_until(env, lambda: False)
        assert caught.value.worker_index == 0
    not_up = pool._not_up(0)
    assert isinstance(not_up, PlacementError)
    assert "lost its place on the cluster before its process started" in str(not_up)


def test_closed_by_another_thread_in_the_middle_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("superdex.lab.gym.vector.pooled._CLOSE_SECONDS", 0.2)
    env = RayVectorEnv([partial(FaultyEnv, "sleep", "reset"), CountingEnv])
    threading.Timer(0.5, env.close).start()
    with pytest.raises(ClosedEnvironmentError, match="closed by another thread"):
        env.reset()
    wait_until(lambda: ray.available_resources().get("CPU") == 6)


def test_a_worker_is_not_restarted_once_another_thread_has_closed() -> None:
    with Restarting([CountingEnv], scheduling_timeout=600.0) as env:
        pool = env._actors
    with pytest.raises(ClosedEnvironmentError, match="was closed by another thread"):
        pool.restart(0)


def test_nothing_is_left_after_close() -> None:
    wait_until(lambda: ray.available_resources()["CPU"] == 6)
    env = RayVectorEnv([CountingEnv])
    (process,) = env.call("process_id")
    wait_until(lambda: ray.available_resources()["CPU"] == 5)
    env.close()
    wait_until(lambda: not Path(f"/proc/{process}").exists())
    wait_until(lambda: ray.available_resources()["CPU"] == 6)
