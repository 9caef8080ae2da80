"""Infos of a batch's rows: arrays, and why episodes end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Reasons", "of_single_row"]


class Reasons(NamedTuple):
    """A reason, or none, for each row in play, as codes into a table of few strings."""

    codes: NDArray[np.uint8]
    """(N,)"""
    table: tuple[str | None, ...]
    """`table[0]` is None: no reason."""


def of_single_row(infos: Mapping[str, NDArray[Any] | Reasons]) -> dict[str, Any]:
    """Infos of one row as Gymnasium gives them for one environment."""
    return {
        name: value.table[value.codes[0]]
        if isinstance(value, Reasons)
        else value[0].item()
        if value.dtype.kind == "b" and value.ndim == 1  # Gymnasium batches bool, but not numpy.bool_
        else value[0]
        for name, value in infos.items()
    }
