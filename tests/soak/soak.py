"""Everything at once, for long: random calls, faults and recoveries, against undisturbed twins.

    python -m tests.soak.soak --minutes 10
    python -m tests.soak.soak --seed 7 --round 12        # repeat the round that failed

Rounds follow each other, each with a vector environment of its own (`rounds`), while
a resident one steps through the whole soak, undisturbed but for the company. The soak
fails on the first result that is not its twin's to the bit, on anything that is
left of a round, and if memory grows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

from tests.soak.pair import Pair
from tests.soak.report import Report
from tests.soak.resources import Resources, memory, settle
from tests.soak.rounds import Round
from tests.soak.setups import TASKS, Setup

__all__ = ["soak"]

_WARM_UP_SHARE = 0.3
_FUZZING_SHARE = 0.1
_RESIDENT = "CartPole, randomized"
_RESIDENT_STEPS = 60


def soak(seconds: float, seed: int, num_envs: int, first_round: int = 0, num_rounds: int | None = None) -> Report:
    """Run rounds until the time is up or `num_rounds` were run.

    The memory at the start is taken once all kinds of tasks had their round and a
    part of the time has passed.
    """
    report = Report(seed, counts=Counter())
    start = time.monotonic()
    deadline = start + seconds
    resident = Pair(Setup(_RESIDENT, num_envs), Counter())
    resident.reset(seed)
    rng = np.random.default_rng(seed)
    try:
        _look_after(resident, rng)
        held = Resources.now()
        last = None if num_rounds is None else first_round + num_rounds
        number = first_round
        while time.monotonic() < deadline and number != last:
            report.round = number
            _run_round(Round(seed, number, num_envs, report.counts), deadline, report)
            report.leaks += held.leaked()
            _look_after(resident, rng)
            number += 1
            warm = number - first_round >= len(TASKS) and time.monotonic() > start + _WARM_UP_SHARE * seconds
            if warm and not report.memory_at_start:
                report.memory_at_start = _settled_memory()
                report.measured_from = time.monotonic()
        report.memory_at_end = _settled_memory()
        report.seconds_measured = time.monotonic() - report.measured_from if report.measured_from else 0.0
    finally:
        resident.close()
    report.seconds = time.monotonic() - start
    report.counts.update(resident.counts)
    return report


def _run_round(this: Round, deadline: float, report: Report) -> None:
    try:
        this.run(deadline)
    except BaseException as error:
        error.add_note(
            f"In round {report.round}: {this.setup}.\n"
            f"To repeat: python -m tests.soak.soak --seed {report.seed} --round {report.round}"
        )
        raise


def _look_after(resident: Pair, rng: np.random.Generator) -> None:
    """What would be done to a long training run."""
    resident.play(rng, _RESIDENT_STEPS)
    resident.restore(resident.capture())
    if rng.random() < 0.2:
        resident.reset(int(rng.integers(2**31)))


def _settled_memory() -> int:
    settle()
    return memory()


def _fuzz(seconds: float, seed: int) -> str:
    """Run the state machines in a process of their own: they remember what they tried."""
    command = [sys.executable, "-m", "tests.soak.fuzzing", "--seconds", str(seconds), "--seed", str(seed)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main(args: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="by default another one each time")
    parser.add_argument("--num-envs", type=int, default=1000, help="of each vector environment; a multiple of 4")
    parser.add_argument("--round", type=int, default=None, help="run this one only")
    given = parser.parse_args(args)
    seed = int(time.time()) if given.seed is None else given.seed
    print(f"Soaking with seed {seed}.", flush=True)
    if given.round is not None:
        report = soak(3600, seed, given.num_envs, given.round, 1)
    else:
        seconds = 60 * given.minutes
        fuzzed = _fuzz(_FUZZING_SHARE * seconds, seed)
        report = soak((1 - _FUZZING_SHARE) * seconds, seed, given.num_envs)
        report.notes.append(fuzzed)
    print(report)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
