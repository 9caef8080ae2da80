"""The example for RLlib learns, learns the right values, and other environments are refused.

Runs in RLlib's own virtual environment; `make test-guests` makes it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guests.running import EXAMPLES, printed_returns, run

ROOT = Path(__file__).parents[2]


REFUSED = "right in NEXT_STEP mode only, got AutoresetMode.SAME_STEP"


@pytest.fixture(autouse=True)
def ray_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ray without a token, without reports home, and with its files in folders that vanish (the names of its sockets
    must be short, so not all in `tmp_path`)."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
        monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path[1:]]))
        yield


def test_cartpole_learns(tmp_path: Path) -> None:
    returns = printed_returns(run(EXAMPLES / "rllib_ppo.py", "--iterations", "12", folder=tmp_path))
    assert returns[0] < 40
    assert returns[-1] > 100


def test_values_and_refusals(tmp_path: Path) -> None:
    printed = run(ROOT / "tests" / "guests" / "rllib_checks.py", folder=tmp_path)
    (line,) = [line for line in printed.splitlines() if line.startswith("{")]
    found = json.loads(line)
    assert found["values"] == pytest.approx([9, 10], abs=0.3)
    assert REFUSED in found["here"]
    assert found["in a runner"] != "nothing"  # RLlib leaves the reason to the runner's log, which Ray prints
    assert REFUSED in printed.replace(line, "")
    assert 'gym_env_vectorize_mode="vector_entry_point"' in found["one by one"]
