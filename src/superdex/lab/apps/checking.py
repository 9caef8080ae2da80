"""Checks of settings, by the names that they have as flags."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable
from numbers import Real
from typing import Any

from superdex.lab.apps.errors import UserError

__all__ = ["nearest", "real", "require", "require_known", "whole"]


def require(condition: bool, option: str, rule: str, value: object) -> None:
    """Raise UserError unless `condition`: "--gamma must be from 0 to 1, got 2." """
    if not condition:
        raise UserError(f"--{option} {rule}, got {value}.")


def require_known(what: str, names: Iterable[object], known: Collection[str]) -> None:
    """Raise UserError if one of the names is not known: "There is no setting 'gama'. Did you mean 'gamma'?" """
    for name in names:
        if name not in known:
            raise UserError(f"There is no {what} {name!r}. {nearest(str(name), known)}")


def nearest(name: str, known: Collection[str]) -> str:
    """Which of the known names was meant, or what they are, for a message."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known) or 'none'}."


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
