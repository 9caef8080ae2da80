"""New examples of the state machines, for as long as one likes.

    python -m tests.soak.fuzzing --seconds 60 --seed 7

Prints how many batches of examples each machine has run. A failure ends it with
hypothesis's report, which has the calls to repeat; so does the same seed.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Sequence

from hypothesis import Phase, seed
from hypothesis.stateful import run_state_machine_as_test

from tests.lab.gym.vector.machines import HybridMachine, SplitMachine
from tests.lab.gym.vector.scene_machine import SceneMachine
from tests.lab.gym.vector.test_state_machine import profile

__all__ = ["fuzz"]

EXAMPLES = {
    SplitMachine: profile(60, 40),
    SceneMachine: profile(60, 40),
    # no shrinking: each example starts processes
    HybridMachine: profile(2, 20, phases=[Phase.generate]),
}
"""The machines, and how much of each makes a batch."""


def fuzz(seconds: float, first_seed: int) -> int:
    """Run batches, each from its own seed, until the time is up; how many."""
    deadline = time.monotonic() + seconds
    for number in itertools.count():
        for machine, batch in EXAMPLES.items():
            run_state_machine_as_test(seed(first_seed + number)(machine), settings=batch)
        if time.monotonic() >= deadline:
            return number + 1
    raise AssertionError("unreachable")


def main(args: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(args)
    batches = fuzz(given.seconds, given.seed)
    counts = ", ".join(f"{batches * b.max_examples} of {m.__name__}" for m, b in EXAMPLES.items())
    print(f"fuzzed: {counts}; seeds {given.seed} to {given.seed + batches - 1}")


if __name__ == "__main__":
    main()
