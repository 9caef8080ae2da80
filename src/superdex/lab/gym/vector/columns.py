"""Infos of many environments as columns: for each key, lists of the values of some environments.

    columns: Columns = {"speed": [ArrayColumn(None, speeds, float)]}
    columns["terminated_reason"] = [CodedColumn(rows, codes, (None, "Fell over"))]

Between an environment and the dict that a vector environment returns, infos
travel in this form; `superdex.lab.gym.vector.infos` merges them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ArrayColumn", "CodedColumn", "Column", "ColumnRows", "Columns", "NestedColumn", "ObjectColumn", "move_rows"]

ColumnRows = NDArray[np.int64] | slice | None
"""The environments of a column: all (None), a range, or sorted indices."""


@dataclass(slots=True)
class ArrayColumn:
    """Numbers, or arrays of one shape and dtype. Not to be changed once made."""

    rows: ColumnRows
    values: np.ndarray
    """(m, *shape): one entry per row."""
    origin: type = np.ndarray
    """What each value was: int, float, bool, a NumPy number type, or np.ndarray."""
    present: NDArray[np.bool_] | None = None
    """(m,) which entries are values; the others are zero, and other columns of these rows come later. None: all."""

    def compact(self) -> ArrayColumn:
        """The same values without absent entries."""
        return self if self.present is None else self.take(*_kept(self.rows, self.present))

    def objects(self) -> list[Any]:
        """The values as the environments gave them."""
        if self.origin is np.ndarray:
            return [self.values[i, ...].copy() for i in range(len(self.values))]
        if issubclass(self.origin, np.generic):
            return list(self.values)
        return self.values.tolist()

    def take(self, rows: ColumnRows, kept: np.ndarray) -> ArrayColumn:
        """The entries at `kept`, which stand for `rows`."""
        return ArrayColumn(rows, self.values[kept], self.origin)

    def moved(self, target: NDArray[np.int64] | slice) -> ArrayColumn:
        """The same values, for environments renumbered by `target`."""
        if isinstance(target, np.ndarray) and self.present is not None:
            return self.compact().moved(target)
        return ArrayColumn(move_rows(self.rows, target), self.values, self.origin, self.present)


@dataclass(slots=True)
class CodedColumn:
    """Values out of a few strings (or None), as codes: cheap to make and to send."""

    rows: ColumnRows
    codes: NDArray[np.uint8]
    """(m,): indices into `table`."""
    table: tuple[str | None, ...]
    present: NDArray[np.bool_] | None = None
    """(m,) which entries are values; the others are zero, and other columns of these rows come later. None: all."""

    def compact(self) -> CodedColumn:
        """The same values without absent entries."""
        return self if self.present is None else self.take(*_kept(self.rows, self.present))

    def objects(self) -> Sequence[Any]:
        """The strings."""
        return np.array(self.table, dtype=object)[self.codes]  # type: ignore[return-value]

    def write(self, out: np.ndarray) -> None:
        """Put the strings into an object array over all environments, which holds None so far."""
        part = self if self.table[0] is None else self.compact()
        # most environments have no reason to give: only the others are looked at
        some = part.codes.nonzero()[0] if part.table[0] is None else np.arange(len(part.codes))
        if some.size:
            rows = some if part.rows is None else move_rows(some, part.rows)
            out[rows] = np.array(part.table, dtype=object)[part.codes[some]]

    def take(self, rows: ColumnRows, kept: np.ndarray) -> CodedColumn:
        """The entries at `kept`, which stand for `rows`."""
        return CodedColumn(rows, self.codes[kept], self.table)

    def moved(self, target: NDArray[np.int64] | slice) -> CodedColumn:
        """The same values, for environments renumbered by `target`."""
        if isinstance(target, np.ndarray) and self.present is not None:
            return self.compact().moved(target)
        return CodedColumn(move_rows(self.rows, target), self.codes, self.table, self.present)


@dataclass(slots=True)
class ObjectColumn:
    """Any Python values."""

    rows: ColumnRows
    values: list[Any]

    def objects(self) -> list[Any]:
        """The values themselves."""
        return self.values

    def take(self, rows: ColumnRows, kept: np.ndarray) -> ObjectColumn:
        """The entries at `kept`, which stand for `rows`."""
        return ObjectColumn(rows, [self.values[i] for i in kept.tolist()])

    def moved(self, target: NDArray[np.int64] | slice) -> ObjectColumn:
        """The same values, for environments renumbered by `target`."""
        return ObjectColumn(move_rows(self.rows, target), self.values)


@dataclass(slots=True)
class NestedColumn:
    """Dicts, as columns of their own; `rows` has all that gave a dict, even an empty one."""

    rows: ColumnRows
    columns: Columns
    """Its rows are environments too, not positions in `rows`."""


Column = ArrayColumn | CodedColumn | ObjectColumn | NestedColumn
Columns = dict[Hashable, list[Column]]


def move_rows(rows: ColumnRows, target: NDArray[np.int64] | slice) -> ColumnRows:
    """`rows` of a part, as rows of the whole in which the part lies at `target`."""
    if rows is None:
        return target
    if isinstance(target, np.ndarray):
        return target[rows]
    if isinstance(rows, slice):
        return slice(rows.start + target.start, rows.stop + target.start)
    return rows + target.start


def _kept(rows: ColumnRows, present: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The environments whose entries are present, and the positions of these."""
    kept = np.flatnonzero(present)
    assert not isinstance(rows, np.ndarray)
    return kept + (0 if rows is None else rows.start), kept
