"""Small training runs, and what must be equal in two that are one and the same."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from superdex.lab.apps.main import main
from superdex.lab.apps.train.checkpoints import CheckpointStore
from superdex.lab.apps.train.progress import TIMES, ProgressLog
from superdex.lab.apps.train.run_directory import RunDirectory

NUM_ENVS, N_STEPS = 8, 16
STEPS_PER_ITERATION = NUM_ENVS * N_STEPS
NUM_ITERATIONS = 12
TOTAL_STEPS = NUM_ITERATIONS * STEPS_PER_ITERATION
FLAGS = {
    "num_envs": NUM_ENVS,
    "n_steps": N_STEPS,
    "n_minibatches": 2,
    "n_epochs": 2,
    "schedule": "constant",
    "hidden_sizes": 8,
    "total_steps": TOTAL_STEPS,
    "checkpoint_every": 3 * STEPS_PER_ITERATION,
    "num_threads": 1,
}

PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where tests run in the background
from superdex.lab.apps.main import main
sys.exit(main(sys.argv[1:]))
"""


def arguments(run_dir: Path, *extra: str, **flags: object) -> list[str]:
    """The command line of a small run in `run_dir`; `flags` replace those of `FLAGS`."""
    pairs = ([f"--{name}", str(value)] for name, value in (FLAGS | flags).items())
    return ["train", "CartPole", "--run-dir", str(run_dir), "--no-video", *extra, *(x for pair in pairs for x in pair)]


def resume(run_dir: Path, *extra: str) -> int:
    return main(["train", "--resume", str(run_dir), "--no-video", *extra])


def start(args: list[str]) -> subprocess.Popen[str]:
    """`superdex` in a process of its own."""
    command = [sys.executable, "-c", PROGRAM, *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_iteration(
    process: subprocess.Popen[Any], run_dir: Path, iteration: int, meanwhile: Callable[[], object] = lambda: None
) -> None:
    log = ProgressLog(RunDirectory(run_dir).progress_file)
    deadline = time.monotonic() + 120
    while len(log.read()) < iteration:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        meanwhile()
        time.sleep(0.005)


def assert_same_run(one: Path, other: Path) -> None:
    """Progress but for times, best policy, and everything in the last checkpoint are equal to the bit."""
    assert _rows(one) == _rows(other)
    last = [CheckpointStore(RunDirectory(path).checkpoints).newest() for path in (one, other)]
    assert last[0] is not None
    assert last[1] is not None
    pairs = [(getattr(last[0], name), getattr(last[1], name)) for name in ("actor", "training", "environments")]
    for mine, theirs in [*pairs, (RunDirectory(one).best_policy, RunDirectory(other).best_policy)]:
        with np.load(mine) as left, np.load(theirs) as right:
            assert left.files == right.files
            for name in left.files:
                np.testing.assert_array_equal(left[name], right[name], err_msg=f"{mine.name}: {name}")


def _rows(path: Path) -> list[dict[str, object]]:
    rows = ProgressLog(RunDirectory(path).progress_file).read()
    return [{name: repr(value) for name, value in vars(row).items() if name not in TIMES} for row in rows]
