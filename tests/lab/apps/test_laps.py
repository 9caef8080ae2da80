"""The statistics of `superdex bench`."""

import pytest

from superdex.lab.apps.bench.laps import Lap, median_ratio, median_speed, ratio_quartiles


def laps(*seconds: float, env_steps: int = 100) -> list[Lap]:
    return [Lap(env_steps, each) for each in seconds]


def test_speed_is_environment_steps_per_second():
    assert Lap(100, 0.5).speed == 200


def test_median_speed_ignores_a_disturbed_lap():
    assert median_speed(laps(1, 1, 50)) == 100


def test_ratio_is_of_paired_laps_and_not_of_medians():
    # The machine slowed down for a while: both sides were slow in the same laps.
    ours = laps(1.0, 4.0, 8.0)
    theirs = laps(2.0, 2.0, 16.0)

    assert median_ratio(ours, theirs) == 2
    assert median_speed(ours) / median_speed(theirs) == 0.5


def test_ratio_is_per_environment_step():
    assert median_ratio(laps(1, env_steps=1000), laps(1, env_steps=100)) == 10


def test_quartiles_are_of_paired_laps():
    ours, theirs = laps(1, 1, 2, 1, 4), laps(1, 2, 6, 4, 20)  # ratios 1, 2, 3, 4, 5

    assert ratio_quartiles(ours, theirs) == (2, 4)
    assert median_ratio(ours, theirs) == 3
    assert ratio_quartiles(laps(1), laps(7)) == (7, 7)


def test_ratio_of_laps_that_do_not_pair_up_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        median_ratio(laps(1, 1), laps(1))
