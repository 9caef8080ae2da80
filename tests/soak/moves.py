"""What happens in a soak, apart from faults: one function for each kind of call."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from superdex.lab.gym.envs import EnvState
from tests.lab.gym.vector.bad_calls import BAD_CALLS, BAD_FOR_PROCESSES
from tests.lab.gym.vector.comparing import assert_same
from tests.soak.pair import Pair

__all__ = ["MOVES", "Shared"]


@dataclass
class Shared:
    """What moves of one round share."""

    folder: Path
    """An empty directory."""
    states: list[EnvState] = field(default_factory=list)
    """Captured earlier."""


def play(pair: Pair, rng: np.random.Generator, shared: Shared) -> None:
    """Steps, and afterwards all environments are compared again."""
    pair.play(rng, int(rng.integers(1, 30)))
    pair.reunite()


def reset(pair: Pair, rng: np.random.Generator, shared: Shared) -> None:
    """All, with a seed for each in any form, for some, or for none."""
    seeds = rng.integers(2**31, size=pair.setup.num_envs)
    some = [int(seed) if rng.random() < 0.5 else None for seed in seeds]
    forms = [None, int(seeds[0]), seeds.tolist(), tuple(seeds.tolist()), some]
    options = [None, {}, {"difficulty": 3, "track": [1, 2]}]
    pair.reset(forms[rng.integers(len(forms))], options[rng.integers(len(options))])


def reset_some(pair: Pair, rng: np.random.Generator, shared: Shared) -> None:
    """Some, by a mask, where that is supported."""
    if pair.setup.kind != "scene":
        reset(pair, rng, shared)
        return
    mask = rng.random(pair.setup.num_envs) < rng.choice([0.01, 0.5])
    mask[rng.integers(len(mask))] = True
    pair.reset(int(rng.integers(2**31)) if rng.random() < 0.5 else None, {"reset_mask": mask})


def attributes(pair: Pair, rng: np.random.Generator, shared: Shared) -> None:
    """Get those that were set before, set others."""
    pair.check_attributes()
    value = int(rng.integers(1000))
    pair.set_attr("note", [value + row for row in range(pair.setup.num_envs)] if rng.random() < 0.5 else value)
    pair.check_attributes()
    pair.call("np_random_seed")


def bad_calls(pair: Pair, rng: np.random.Generator, shared: Shared) -> None:
    """Refused, and the next steps are as if they had not been made."""
    known = {**BAD_CALLS, **(BAD_FOR_PROCESSES if pair.setup.kind == "hybrid" else {})}
    for name in rng.choice(sorted(known), 4, replace=False):
        known[name].check(pair.env)
        pair.counts["bad calls refused"] += 1
    pair.play(rng, 2)


def checkpoint(pair: Pair, rng: np.random.Generator, shared: Shared) -> None:
    """Save the state; another vector environment continues from the file as this one does."""
    if pair.setup.foreign:
        play(pair, rng, shared)
        return
    pair.play(rng, 1)
    state = _through_file(pair.capture(), shared.folder)
    shared.states = [*shared.states[-2:], state]
    with pair.setup.elsewhere(rng).make() as other:
        other.restore_state(state)
        for _ in range(int(rng.integers(1, 8))):
            if pair.setup.mode.value == "Disabled" and pair.ended.any():
                break
            actions = pair.actions(rng)
            assert_same(tuple(other.step(actions)), tuple(pair.step(actions)), "continued elsewhere")
    pair.counts["checkpoints continued elsewhere"] += 1


def rewind(pair: Pair, rng: np.random.Generator, shared: Shared) -> None:
    """Back to an earlier state."""
    if shared.states:
        pair.restore(shared.states[rng.integers(len(shared.states))])
        pair.counts["checkpoints restored"] += 1
    play(pair, rng, shared)


def _through_file(state: EnvState, folder: Path) -> EnvState:
    path = folder / "state.npz"
    state.save(path)
    assert os.listdir(folder) == [path.name]
    return EnvState.load(path)


MOVES: dict[Callable[[Pair, np.random.Generator, Shared], None], float] = {
    play: 4,
    reset: 1.5,
    reset_some: 1,
    attributes: 1,
    bad_calls: 1,
    checkpoint: 1,
    rewind: 0.7,
}
"""How often each is made, relative to the others."""
