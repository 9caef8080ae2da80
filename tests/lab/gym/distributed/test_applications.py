"""The example and the measurement of a cluster run: here, because the cluster is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from superdex.lab.apps.bench.cluster import Costs, costs_table, measure, speeds_table
from tests.lab.gym.distributed.conftest import ROOT


def test_the_example_runs_on_both_nodes(cluster: Any) -> None:
    script = ROOT / "examples" / "cluster_rollouts.py"
    done = subprocess.run(
        [sys.executable, script, "--num-envs-per-worker", "10", "--num-steps", "50"],
        env={**os.environ, "RAY_ADDRESS": cluster.address},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert len([line for line in printed if re.fullmatch(r"Node \w{8}: 1 workers", line)]) == 2
    assert printed[-1] == "20 episodes, 200.0 steps on average"


@pytest.mark.usefixtures("cluster")
def test_costs_are_measured() -> None:
    costs = measure("CartPole", num_envs=8, rounds=1, num_steps=4)
    # observations, actions, rewards, flags; last observations, restarts; of ends: step, environment, lost, observation
    ends, rest = divmod(costs.rollout_bytes - 8 * 4 * (4 * 4 + 4 + 4 + 2) - 8 * (4 * 4 + 1), 8 + 8 + 1 + 4 * 4)
    assert ends >= 0
    assert rest == 0
    assert 10_000 < costs.policy_bytes < 40_000
    assert min(costs.collecting, costs.learning, costs.in_process_step, costs.ray_collect) > 0
    assert costs.ray_step > costs.in_process_step
    console = Console(width=120, record=True)
    console.print(costs_table([costs]), speeds_table([costs], 10.0))
    assert "environments x steps of a rollout" in console.export_text()


def test_more_cores_help_until_learning_takes_all_the_time() -> None:
    costs = Costs(
        task="CartPole",
        num_envs=1000,
        num_steps=10,
        collecting=40e-6,
        learning=5e-6,
        rollout_bytes=1_250_000,
        policy_bytes=20_000,
        in_process_step=4e-3,
        ray_step=7e-3,
        ray_collect=4e-3,
    )
    assert costs.transfer(gigabits=1) == pytest.approx(1e-6)
    assert costs.speed(cores=10, gigabits=1) == pytest.approx(1e6 / (4 + 1 + 5))
    assert costs.limit(gigabits=1) == pytest.approx(1e6 / 6)
    assert costs.cores_half_way(gigabits=1) == pytest.approx(40 / 6)
    assert costs.speed(cores=10**6, gigabits=1) == pytest.approx(costs.limit(gigabits=1), rel=1e-4)
