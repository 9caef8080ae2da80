"""A short soak on every change; see `tests.soak.soak`."""

from __future__ import annotations

from tests.soak.soak import soak


def test_a_short_soak() -> None:
    report = soak(seconds=22, seed=1, num_envs=40)
    print(report)
    assert report.good, str(report)
    assert report.counts["rounds"] >= 1
