"""What the measurement of a cluster says to wrong use; what it measures is tested in `tests.lab.gym.distributed`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--num-envs", "0"], "--num_envs and --rounds must be at least 1, and --gigabits positive."),
        (["--json", "missing/cluster.json"], "--json missing/cluster.json: there is no directory missing."),
        (["--env", "CartPolle"], "There is no task 'CartPolle'. Did you mean 'CartPole'?"),
    ],
)
def test_wrong_use_is_told_in_a_line(args: list[str], message: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "superdex.lab.apps.bench.cluster", *args]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert result.returncode == 2
    assert result.stderr.startswith(f"superdex: error: {message}")
    assert len(result.stderr.splitlines()) == 1
