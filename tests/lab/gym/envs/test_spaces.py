"""Structured spaces and their flat form."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from superdex.lab.gym.envs.spaces import FlatSpace


def box(*shape: int, low: float = -1, high: float = 1, dtype=np.float32) -> spaces.Box:
    return spaces.Box(low, high, shape, dtype)


@st.composite
def layouts(draw: st.DrawFn) -> FlatSpace:
    keys = draw(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=5, unique=True))
    shape = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    return FlatSpace({key: box(*draw(st.one_of(st.just(()), shape)), dtype=np.float64) for key in keys}, "observation")


leading_axes = st.one_of(st.just(()), array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=3))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_flat_array_survives_the_round_trip_with_any_leading_axes(data: st.DataObject) -> None:
    layout, lead = data.draw(layouts()), data.draw(leading_axes)
    flat = data.draw(arrays(np.float64, (*lead, layout.size)))
    structured = layout.split(flat)
    assert {key: value.shape for key, value in structured.items()} == {
        key: (*lead, *part.shape) for key, part in layout.parts.items()
    }
    joined = layout.join(structured)
    assert np.array_equal(joined, flat, equal_nan=True)
    assert not np.shares_memory(joined, flat)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_flattening_is_that_of_gymnasium(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    space = layout.dict()
    space.seed(data.draw(st.integers(0, 100)))
    sample = space.sample()
    assert np.array_equal(layout.join(sample), spaces.flatten(space, sample))
    assert layout.box() == spaces.flatten_space(space)


def test_parts_lie_in_alphabetical_order() -> None:
    layout = FlatSpace({"b": box(2), "a": box(2, 2), "C": box()}, "observation")
    assert list(layout.parts) == ["C", "a", "b"]
    assert layout.slices == {"C": slice(0, 1), "a": slice(1, 5), "b": slice(5, 7)}
    flat = layout.join({"a": [[1, 2], [3, 4]], "b": [5, 6], "C": 0})
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert flat.dtype == np.float32


def test_split_gives_views() -> None:
    flat = np.zeros((3, 4))
    FlatSpace({"a": box(2), "b": box(2)}, "action").split(flat)["b"][:, 1] = 7
    assert flat[:, 3].tolist() == [7, 7, 7]


def test_bounds_are_those_of_the_parts() -> None:
    layout = FlatSpace({"b": spaces.Box(np.float32([-1, -2]), np.float32([3, np.inf])), "a": box()}, "x")
    flat = layout.box()
    assert flat.low.tolist() == [-1, -1, -2]
    assert flat.high.tolist() == [1, 3, np.inf]
    assert flat.dtype == np.float32
    assert layout.box() is not flat


def test_mixed_types_are_promoted() -> None:
    layout = FlatSpace({"a": box(1, dtype=np.float32), "b": box(1, low=0, high=9, dtype=np.int64)}, "x")
    assert layout.dtype == np.float64
    assert layout.join({"a": [0.5], "b": [7]}).tolist() == [0.5, 7]


def test_a_part_that_is_no_box_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Part 'gear' of the action space must be a Box, got Discrete\(3\)"):
        FlatSpace({"gear": spaces.Discrete(3)}, "action")


def test_no_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="The action space has no parts: declare at least one Box"):
        FlatSpace({}, "action")


def test_wrong_keys_and_shapes_are_named() -> None:
    layout = FlatSpace({"a": box(2), "b": box(2, 3)}, "observation")
    with pytest.raises(ValueError, match=r"exactly the parts \['a', 'b'\]: missing \['b'\], unknown \['c'\]"):
        layout.join({"a": [0, 0], "c": 1})
    with pytest.raises(ValueError, match=r"Part 'b' of the observation must have shape \(2, 3\), got \(6,\)"):
        layout.join({"a": [0, 0], "b": np.zeros(6)})
    with pytest.raises(ValueError, match=r"Part 'b' of the observation must have shape \(4, 2, 3\), got \(2, 3\)"):
        layout.join({"a": np.zeros((4, 2)), "b": np.zeros((2, 3))})
    with pytest.raises(ValueError, match=r"Part 'a' of the observation must have shape \(2,\), got \(\)"):
        layout.join({"a": 1, "b": np.zeros((2, 3))})
    with pytest.raises(ValueError, match=r"flat observation must have shape \(..., 8\), got \(7,\)"):
        layout.split(np.zeros(7))


def test_an_empty_batch_keeps_its_shapes() -> None:
    layout = FlatSpace({"a": box(2), "b": box(2, 3)}, "observation")
    structured = layout.split(np.zeros((0, 8)))
    assert structured["b"].shape == (0, 2, 3)
    assert layout.join(structured).shape == (0, 8)
