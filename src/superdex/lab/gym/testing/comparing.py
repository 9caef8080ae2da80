"""Equality to the bit, with words for the first difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from superdex.lab.gym.envs.spaces import FlatSpace

__all__ = ["difference", "entry_difference", "is_rounding", "rollout_difference"]

_RESET, _STEP = ("observation", "info"), ("observation", "reward", "terminated", "truncated", "info")
_ROUNDING = 1e-9


def rollout_difference(actual: Iterable[Sequence[Any]], expected: Sequence[Sequence[Any]], layout: FlatSpace) -> str:
    """The first difference between what resets and steps returned, or "" if they are equal.

    Args:
        actual: results of one kind of environment or vector environment.
        expected: results of another.
        layout: names the observation's parts.
    """
    step = 0
    for result, wanted in zip_longest(actual, expected):
        is_reset = len(wanted or result) == len(_RESET)
        step += not is_reset
        where = f"in the reset after step {step}" if is_reset else f"in step {step}"
        if not step:
            where = "in the first reset"
        if result is None or wanted is None or len(result) != len(wanted):
            return f"{where}, an episode ends in one of them only"
        for name, one, other in zip(_RESET if is_reset else _STEP, result, wanted, strict=True):
            found = entry_difference(one, other, layout) if name == "observation" else difference(one, other, name)
            if found:
                return f"{where}, {found}"
    return ""


def entry_difference(actual: np.ndarray, expected: np.ndarray, layout: FlatSpace) -> str:
    """The first difference of flat observations, (size,) or (n, size), with the part's name."""
    if actual.shape == expected.shape and actual.dtype == expected.dtype:
        entry = _first(actual, expected)
        if entry is None:
            return ""
        part = next(key for key, span in layout.slices.items() if entry[-1] < span.stop)
        whose = f" of environment {entry[0]}" if len(entry) > 1 else ""
        return f"observation {part!r}{whose} is {_pair(actual[entry], expected[entry])}"
    return difference(actual, expected, "observation")


def difference(actual: Any, expected: Any, path: str) -> str:
    """The first difference in values, dtypes, shapes, keys or types, or "" if there is none; NaN equals NaN."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        if actual.keys() != expected.keys():
            keys = sorted(map(str, actual.keys() ^ expected.keys()))
            return f"{path} has {', '.join(keys)} in one of them only"
        return next(
            (found for key in expected if (found := difference(actual[key], expected[key], f"{path}[{key!r}]"))), ""
        )
    if type(actual) is not type(expected):
        return f"{path} is a {type(actual).__name__} instead of a {type(expected).__name__}"
    if isinstance(expected, np.ndarray):
        if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
            return f"{path} is {actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
        if expected.dtype == object:
            return difference(actual.tolist(), expected.tolist(), path)
        entry = _first(actual, expected)
        if entry is None:
            return ""
        return f"{path}[{', '.join(map(str, entry))}] is {_pair(actual[entry], expected[entry])}"
    if isinstance(expected, list | tuple):
        if len(actual) != len(expected):
            return f"{path} has {len(actual)} entries instead of {len(expected)}"
        pairs = enumerate(zip(actual, expected, strict=True))
        return next((found for i, (a, e) in pairs if (found := difference(a, e, f"{path}[{i}]"))), "")
    if actual == expected or (actual != actual and expected != expected):
        return ""
    return f"{path} is {_pair(actual, expected)}"


def is_rounding(actual: Any, expected: Any) -> bool:
    """Whether two numbers or arrays differ as by another order of operations only."""
    one, other = np.asarray(actual), np.asarray(expected)
    if one.dtype.kind not in "fc" or one.shape != other.shape:
        return False
    return bool(np.allclose(one, other, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True))


def _first(actual: np.ndarray, expected: np.ndarray) -> tuple[int, ...] | None:
    unequal = (actual != expected) & ~((actual != actual) & (expected != expected))
    return tuple(map(int, np.argwhere(unequal)[0])) if unequal.any() else None


def _pair(actual: Any, expected: Any) -> str:
    pair = f"{actual} instead of {expected}"
    return f"{pair} (rounding)" if is_rounding(actual, expected) else pair
