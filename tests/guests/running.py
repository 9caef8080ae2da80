"""Running the examples, as scripts and as modules."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from superdex.lab.gym.envs import Terminate
from tests.lab.gym.rollouts.worlds import TwoStateEnv

__all__ = ["EXAMPLES", "CutAndOverEnv", "CutEnv", "load", "printed_returns", "run"]

EXAMPLES = Path(__file__).parents[2] / "examples" / "guests"


class CutEnv(TwoStateEnv):
    """Truncated after 3 steps. With gamma 0.9, the values of observations 0 and 1 are 9 and 10.

    A learner that takes the next episode's first observation for this one's last finds less than 7.
    """

    def __init__(self, cfg=None):
        super().__init__(cfg, steps_per_episode=3)


class CutAndOverEnv(CutEnv):
    """Truncated and terminated after 3 steps: nothing is to come, and values are from 1.4 to 1.9."""

    def _check_stop_criteria(self, sim, observation, info):
        return [Terminate(sim.task["count"] >= 3, "Over")]


def load(name: str) -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(script: Path, *arguments: str, folder: Path) -> str:
    """What a script prints, errors and logs included, run in `folder`."""
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def printed_returns(printed: str) -> list[float]:
    """The mean returns that a training printed, in whatever way its library does."""
    found = re.findall(r"(?:mean return|Mean reward:|ep_rew_mean +\|) *([\d.e+]+)", printed)
    return [float(number) for number in found]
