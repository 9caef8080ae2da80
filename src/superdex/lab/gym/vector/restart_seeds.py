"""Seeds for environments whose worker died.

A replaced environment cannot go on where its generator was. It gets a
seed that depends on nothing but the last seed it was reset with (or the state
restored into it) and on how often it was replaced since: the same run with the
same deaths repeats to the bit, whatever the split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from superdex.lab.gym.envs.env_state import EnvState

__all__ = ["RestartSeeds"]


class RestartSeeds:
    """The seeds for environments that are made again, one stream for each environment."""

    def __init__(self, num_envs: int) -> None:
        self._roots: list[int | None] = [None] * num_envs
        self._drawn = [0] * num_envs

    def reseed(self, seeds: Sequence[int | None] | None) -> None:
        """Begin anew where a seed was given."""
        for environment, seed in enumerate(seeds or ()):
            if seed is not None:
                self._roots[environment], self._drawn[environment] = seed, 0

    def restore(self, state: EnvState) -> None:
        """Begin anew from the environments' states."""
        roots: list[int | None] = [None] * state.num_envs
        for section in state.sections:
            for position, environment in enumerate(section.environments.tolist()):
                digest = hashlib.blake2b(digest_size=8)
                for name in sorted(section.arrays):
                    digest.update(section.arrays[name][position].tobytes())
                roots[environment] = int.from_bytes(digest.digest(), "little")
        self.reseed(roots)

    def draw(self, environment: int) -> int:
        """The next seed (31 bits, which every environment takes); from the system if no seed was ever given."""
        root, number = self._roots[environment], self._drawn[environment]
        self._drawn[environment] += 1
        sequence = np.random.SeedSequence(root, spawn_key=() if root is None else (number,))
        return int(sequence.generate_state(1)[0]) >> 1
