"""Killed at any system call while a checkpoint is written: the one before is intact and found."""

import subprocess
import sys

PROGRAM = """
import os, sys
from pathlib import Path

import numpy as np

from superdex.lab.apps.atomic import remove_leftovers
from superdex.lab.apps.train.checkpoints import CheckpointRecord, CheckpointStore
from superdex.lab.apps.train.policy_file import PolicyInfo, read_policy
from superdex.lab.gym.rollouts import GaussianMlpPolicy

FILES = ("policy.zip", "environments.npz", "training.npz")
one = np.ones(1, np.float32)
layers = ((np.ones((4, 1), np.float32), one),)
policy = GaussianMlpPolicy(layers=layers, activation="relu", log_std=one, low=-one, high=one)


def save(store, steps):
    def fill(checkpoint):
        for name in FILES:
            (checkpoint.path / name).write_text(f"{steps} " * 1000)

    info = PolicyInfo(task_id="superdex_gym/CartPole-v0", steps=steps, iteration=0, return_mean=None, length_mean=None)
    record = dict(iteration=0, wall_seconds=0.0, stepping_seconds=0.0, learning_seconds=0.0, best_return=None)
    store.save(CheckpointRecord(steps=steps, **record), policy, info, fill)


def check(store, steps):
    newest = store.newest()
    assert newest.steps == steps == newest.read_record().steps == read_policy(newest.actor)[1].steps
    assert all((newest.path / name).read_text() == f"{steps} " * 1000 for name in FILES)


def die_at(event):
    count = 0

    def hook(name, args):
        nonlocal count
        if name == "open" or name.split(".")[0] in ("os", "shutil", "tempfile"):
            count += 1
            if count == event:
                os._exit(9)

    sys.addaudithook(hook)


directory = Path(sys.argv[1])
outcomes, event, code = set(), 0, 9
while code == 9:
    event += 1
    (directory / str(event)).mkdir()
    store = CheckpointStore(directory / str(event))
    for steps in (1, 2, 3):
        save(store, steps)
    child = os.fork()
    if child == 0:
        die_at(event)
        save(store, 4)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = store.newest().steps
    check(store, found)
    outcomes.add(found)
    remove_leftovers(directory / str(event))
    assert all(path.name.startswith("step_") for path in (directory / str(event)).iterdir())
    save(store, 5)
    check(store, 5)
print(event, sorted(outcomes))
"""


def test_previous_checkpoint_survives_death_at_any_call(tmp_path):
    result = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, timeout=60)

    assert result.returncode == 0, result.stderr
    events, outcomes = result.stdout.split(" ", 1)
    assert int(events) > 15
    assert outcomes.strip() == "[3, 4]"
