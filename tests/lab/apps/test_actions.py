"""Actions without a policy: what they are, and that they are in the space whatever its bounds."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.vector.utils import batch_space
from hypothesis import given

from superdex.lab.apps.actions import SWEEP_SECONDS, finite_bounds, make_actions, neutral_action, sweep
from superdex.lab.apps.bench.measuring import Actions

SPACE = Box(np.array([-1.0, 2.0, -np.inf]), np.array([3.0, 4.0, np.inf]), dtype=np.float64)

LARGEST = float(np.finfo(np.float32).max)
BOUNDS = st.one_of(
    st.floats(-100, 100, width=32), st.sampled_from([-np.inf, np.inf, -LARGEST, LARGEST, -1e30, 1e30, 0.0])
)


@st.composite
def spaces(draw: st.DrawFn) -> Box:
    """Boxes of which any bound may be missing, infinite for want of one, or far away."""
    pairs = draw(st.lists(st.tuples(BOUNDS, BOUNDS).map(sorted), min_size=1, max_size=3))
    low, high = np.array(pairs, draw(st.sampled_from([np.float32, np.float64]))).T
    return Box(np.where(low == np.inf, 1.0, low), np.where(high == -np.inf, 1.0, high), dtype=low.dtype.type)


@given(spaces())
def test_all_actions_are_in_the_space(space: Box) -> None:
    low, high = finite_bounds(space)
    assert low.astype(space.dtype) in space
    assert high.astype(space.dtype) in space
    assert np.isfinite(high - low).all()
    missing = np.isinf(space.low) | np.isinf(space.high)
    near = np.abs(neutral_action(space)) < 1e6  # where one more is a number of its own
    assert (high > low)[missing & near].all()
    for kind in ("random", "zero", "sweep"):
        actions = make_actions(kind, space, 2, 0.3, 0)  # type: ignore[arg-type]
        assert all(row in space for step in range(10) for row in actions(step))
    batch = batch_space(space, 50)
    assert isinstance(batch, Box)
    assert Actions(batch, seed=0).draw() in batch


@pytest.mark.parametrize(
    ("low", "high", "bounds"),
    [
        (-np.inf, np.inf, (-1, 1)),
        (2, np.inf, (2, 3)),
        (-np.inf, -5, (-6, -5)),
        (-3, np.inf, (-3, 1)),
        (-LARGEST, LARGEST, (-1, 1)),
        (-3, 4, (-3, 4)),
    ],
)
def test_missing_bounds_are_one_from_the_neutral_action(low: float, high: float, bounds: tuple[float, float]) -> None:
    assert tuple(each.item() for each in finite_bounds(Box(low, high, (1,)))) == bounds


def test_neutral_is_as_near_to_zero_as_can_be() -> None:
    assert neutral_action(SPACE).tolist() == [0.0, 2.0, 0.0]


def test_sweep_takes_one_entry_after_another_through_its_range() -> None:
    times = np.linspace(0, 3 * SWEEP_SECONDS, 240, endpoint=False)
    actions = np.array([sweep(SPACE, time) for time in times])
    for entry, (low, high) in enumerate([(-1.0, 3.0), (2.0, 4.0), (-1.0, 1.0)]):
        own = slice(80 * entry, 80 * (entry + 1))
        assert (actions[own, entry].min(), actions[own, entry].max()) == pytest.approx((low, high), abs=0.01)
        others = np.delete(np.arange(240), np.arange(240)[own])
        assert (actions[others, entry] == neutral_action(SPACE)[entry]).all()
    assert sweep(SPACE, 3 * SWEEP_SECONDS + 0.2) == pytest.approx(sweep(SPACE, 0.2))


def test_random_is_drawn_anew_from_the_seed() -> None:
    first, second, other = (make_actions("random", SPACE, 4, 0.1, seed) for seed in (5, 5, 6))
    drawn = first(0)
    assert drawn.shape == (4, 3)
    assert all(row in SPACE for row in drawn)
    assert np.array_equal(drawn, second(0))
    assert not np.array_equal(drawn, other(0))
    assert not np.array_equal(drawn, first(1))


@pytest.mark.parametrize("kind", ["zero", "sweep"])
def test_others_are_the_same_for_all(kind: Any) -> None:
    actions = make_actions(kind, SPACE, 4, 0.1, 0)(3)
    assert actions.shape == (4, 3)
    assert (actions == actions[0]).all()
