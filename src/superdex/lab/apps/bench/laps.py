"""The statistics of `superdex bench`.

Sides that are compared run in turns, and each turn gives every side one lap.
Lap i of one side is divided by lap i of the other, which ran at the same time
under the same load of the machine, and the median of these ratios is the
result. Their quartiles say how far it can be trusted: with a few laps, ratios that
differ by less than that are the same. The median of speeds is only ever shown,
never divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles
from typing import NamedTuple

__all__ = ["Lap", "median_ratio", "median_speed", "ratio_quartiles"]


class Lap(NamedTuple):
    """What one side did in one turn."""

    env_steps: int
    """Control steps, summed over the environments."""
    seconds: float

    @property
    def speed(self) -> float:
        """Control steps per second, summed over the environments."""
        return self.env_steps / self.seconds


def median_speed(laps: Sequence[Lap]) -> float:
    """The median of the laps' speeds [control steps/s]."""
    return median(lap.speed for lap in laps)


def median_ratio(laps: Sequence[Lap], reference: Sequence[Lap]) -> float:
    """How many times as fast as the reference: the median over the turns, of which both have equally many."""
    return median(_ratios(laps, reference))


def ratio_quartiles(laps: Sequence[Lap], reference: Sequence[Lap]) -> tuple[float, float]:
    """Between which lies the middle half of the ratios that `median_ratio` is the median of."""
    ratios = _ratios(laps, reference)
    if len(ratios) == 1:
        return ratios[0], ratios[0]
    first, _, third = quantiles(ratios, n=4, method="inclusive")
    return first, third


def _ratios(laps: Sequence[Lap], reference: Sequence[Lap]) -> list[float]:
    return [lap.speed / other.speed for lap, other in zip(laps, reference, strict=True)]
