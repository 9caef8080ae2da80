"""Equality to the bit and to the type, for results of vector environments."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_same(actual: Any, expected: Any, path: str = "result") -> None:
    """The same values, dtypes, shapes, keys and types, all the way down; NaN equals NaN."""
    if isinstance(expected, dict):
        assert isinstance(actual, dict), f"{path}: {actual!r} is no dict"
        assert set(actual) == set(expected), f"{path}: keys {sorted(actual)} != {sorted(expected)}"
        for key in expected:
            assert_same(actual[key], expected[key], f"{path}[{key!r}]")
        return
    assert type(actual) is type(expected), f"{path}: {type(actual)} != {type(expected)}"
    if isinstance(expected, np.ndarray):
        assert actual.dtype == expected.dtype, f"{path}: {actual.dtype} != {expected.dtype}"
        assert actual.shape == expected.shape, f"{path}: {actual.shape} != {expected.shape}"
        if expected.dtype == object:
            for i, (a, e) in enumerate(zip(actual.flat, expected.flat, strict=True)):
                assert_same(a, e, f"{path}[{i}]")
        else:
            np.testing.assert_array_equal(actual, expected, err_msg=path, strict=True)
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected), path
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            assert_same(a, e, f"{path}[{i}]")
    else:
        assert actual == expected or (actual != actual and expected != expected), f"{path}: {actual!r} != {expected!r}"
