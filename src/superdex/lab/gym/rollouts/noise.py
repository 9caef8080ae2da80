"""Exploration noise as a pure function of seed, step and environment.

Every environment has a place of its own in the output of a counter-based
generator (Philox), which is computed without what lies before. So a part of
the environments gets the very numbers that it gets among all of them, in any
process, and training that is resumed needs no generator's state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["standard_normal"]

_BLOCK = 8
"""Philox makes 256 bits per counter: 8 numbers of 32 bits."""
_UNIT = np.float32(2.0**-24)
_TURN = np.float32(2 * np.pi * 2.0**-24)


def standard_normal(seed: int, step: int, environments: slice, size: int) -> NDArray[np.float32]:
    """(n, size) independent standard normal numbers for the environments of a slice, in one step."""
    pairs = -(-size // _BLOCK) * _BLOCK // 2
    blocks, count = 2 * pairs // _BLOCK, environments.stop - environments.start
    generator = np.random.Philox(key=seed, counter=[environments.start * blocks, step, 0, 0])
    bits = generator.random_raw(count * blocks * _BLOCK // 2).view(np.uint32) >> np.uint32(8)  # 24 bits: exact floats
    columns = bits.reshape(count, 2 * pairs)
    return _box_muller(columns[:, :pairs], columns[:, pairs:])[:, :size]


def _box_muller(first: NDArray[np.uint32], second: NDArray[np.uint32]) -> NDArray[np.float32]:
    """(n, 2k) normal numbers from twice (n, k) uniform ones of 24 bits; every pair makes two, whatever they are."""
    radius = (first + np.uint32(1)).astype(np.float32)  # in (0, 1]: its logarithm is finite
    radius *= _UNIT
    np.log(radius, out=radius)
    radius *= np.float32(-2)
    np.sqrt(radius, out=radius)
    angle = second.astype(np.float32)
    angle *= _TURN
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
