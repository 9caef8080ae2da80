"""Checks of single settings, by the names that they have as flags."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from superdex.lab.apps.errors import UserError

__all__ = ["real", "require", "whole"]


def require(condition: bool, option: str, rule: str, value: object) -> None:
    """Raise UserError unless `condition`: "--gamma must be from 0 to 1, got 2." """
    if not condition:
        raise UserError(f"--{option} {rule}, got {value}.")


def whole(option: str, value: Any) -> int:
    """`value` as an int; 1e6 is one, too, and so are NumPy's.

    Raises:
        UserError: if it is something else.
    """
    is_whole = _is_number(value) and math.isfinite(value) and value == int(value)
    require(is_whole, option, "must be a whole number", repr(value))
    return int(value)


def real(option: str, value: Any) -> float:
    """`value` as a float; it need not be finite.

    Raises:
        UserError: if it is no number.
    """
    require(_is_number(value), option, "must be a number", repr(value))
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
