"""Columns on their way from a worker to the caller.

Arrays (values, codes and rows) are written one after another into the worker's
own `SharedBuffer`. A message on the pipe says what they are:

- the first time, and whenever that changes, the schema (keys, types, shapes),
  pickled, with all values that are no plain arrays;
- from then on a token: how long each array is, a few bytes.

The sender must not send again before the receiver has used what it got: the
columns that `receive` returns are views of the shared memory.
"""

from __future__ import annotations

import math
import mmap
import pickle
from array import array
from collections.abc import Hashable, Iterator
from typing import Any

import cloudpickle
import numpy as np

from superdex.lab.gym.vector.columns import ArrayColumn, CodedColumn, Column, ColumnRows, Columns, NestedColumn
from superdex.lab.gym.vector.transport import SharedBuffer, align

__all__ = ["ColumnReceiver", "ColumnSender", "dumps"]

_TOKEN, _FULL = b"t", b"f"
_SMALLEST_ARENA = 1 << 16
_IN_ARENA = True
"""In a schema, stands for rows that are an array."""


def dumps(value: Any, what: str) -> bytes:
    """`value`, pickled for the other process; TypeError says `what` could not be."""
    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        raise TypeError(
            f"{what} cannot be sent to another process: {error}. "
            "Use plain data there, without locks, open files or generators."
        ) from error


class _Arena:
    """Arrays one after another in a shared buffer; both sides walk it in the same order.

    The views of the last walk serve again as long as this one meets arrays of the same form.
    """

    def __init__(self, buffer: SharedBuffer) -> None:
        self._buffer = buffer
        self._memory: mmap.mmap | bytearray = bytearray()
        self._views: list[np.ndarray] = []
        self._offsets = [0]
        self.position = 0
        """How many arrays lie behind."""

    def rewind(self) -> None:
        self.position = 0

    def put(self, values: np.ndarray) -> None:
        end = self._offsets[self.position] + values.nbytes
        if end > len(self._memory):
            self._buffer.allocate(max(2 * end, _SMALLEST_ARENA))
        self.get(values.shape, values.dtype)[...] = values

    def get(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        position = self.position
        self.position += 1
        if position < len(self._views):
            view = self._views[position]
            if view.shape == shape and view.dtype == dtype:
                return view
        end = self._offsets[position] + math.prod(shape) * dtype.itemsize
        if end > len(self._memory):
            self._memory = self._buffer.map()  # the sender has made it larger
        view = np.ndarray(shape, dtype, buffer=self._memory, offset=self._offsets[position])
        self._views[position:] = [view]
        self._offsets[position + 1 :] = [align(end)]
        return view

    def again(self, position: int) -> np.ndarray:
        """An array that lies behind."""
        return self._views[position]


class ColumnSender:
    """A worker's end: makes messages."""

    def __init__(self, buffer: SharedBuffer) -> None:
        self._arena = _Arena(buffer)
        self._schema: Any = None
        self._lengths = array("q")
        self._others: list[tuple[Hashable, Column]] = []
        self._present: tuple[np.ndarray | None, int] = (None, 0)

    def send(self, columns: Columns) -> bytes:
        """Write the arrays of `columns` to the buffer; the message that goes with them."""
        self._arena.rewind()
        self._lengths = array("q")
        self._others = []
        self._present = (None, 0)
        schema = self._pack(columns)
        if schema == self._schema and not self._others:
            return _TOKEN + self._lengths.tobytes()
        self._schema = schema
        try:
            others = cloudpickle.dumps([column for _, column in self._others])
        except Exception:
            for key, column in self._others:
                dumps(column, f"The info {key!r}")
            raise
        return _FULL + pickle.dumps((schema, self._lengths, others))

    def _pack(self, columns: Columns) -> tuple[Any, ...]:
        return tuple((key, tuple(self._pack_column(key, column) for column in parts)) for key, parts in columns.items())

    def _pack_column(self, key: Hashable, column: Column) -> tuple[Any, ...]:
        if type(column) is ArrayColumn and not column.values.dtype.hasobject:
            rows = self._pack_rows(column.rows)
            present = self._pack_present(column.present)
            self._put(column.values)
            return ArrayColumn, rows, present, column.origin, column.values.dtype, column.values.shape[1:]
        if type(column) is CodedColumn:
            rows = self._pack_rows(column.rows)
            present = self._pack_present(column.present)
            self._put(column.codes)
            return CodedColumn, rows, present, column.table
        if type(column) is NestedColumn:
            return NestedColumn, self._pack_rows(column.rows), self._pack(column.columns)
        self._others.append((key, column))
        return (None,)

    def _pack_rows(self, rows: ColumnRows) -> Any:
        if isinstance(rows, np.ndarray):
            self._put(rows)
            return _IN_ARENA
        return rows

    def _pack_present(self, present: np.ndarray | None) -> int | None:
        """Where in the arena it is; columns in a row often share one."""
        if present is None:
            return None
        known, position = self._present
        if present is not known:
            position = self._arena.position
            self._present = present, position
            self._put(present)
        return position

    def _put(self, values: np.ndarray) -> None:
        self._arena.put(values)
        self._lengths.append(len(values))


class ColumnReceiver:
    """The caller's end: makes columns of messages."""

    def __init__(self, buffer: SharedBuffer) -> None:
        self._arena = _Arena(buffer)
        self._schema: Any = ()
        self._columns: Columns = {}
        self._last_token = b""
        self._lengths: Iterator[int] = iter(())
        self._others: Iterator[Column] = iter(())

    def receive(self, message: bytes) -> Columns:
        """The columns that `message` announces: to be used before the sender sends again."""
        if message == self._last_token:
            return self._columns  # views of the same places, which hold new values now
        if message[:1] == _FULL:
            self._schema, lengths, others = pickle.loads(message[1:])
            self._others = iter(pickle.loads(others))
            self._last_token = b""
        else:
            lengths = array("q", message[1:])
            self._last_token = message
        self._lengths = iter(lengths)
        self._arena.rewind()
        self._columns = self._unpack(self._schema)
        return self._columns

    def _unpack(self, schema: tuple[Any, ...]) -> Columns:
        return {key: [self._unpack_column(*entry) for entry in entries] for key, entries in schema}

    def _unpack_column(self, kind: type | None, rows: Any = None, *details: Any) -> Column:
        if kind is None:
            return next(self._others)
        if rows is _IN_ARENA:
            rows = self._get((), np.dtype(np.int64))
        if kind is NestedColumn:
            return NestedColumn(rows, self._unpack(*details))
        present, *form = details
        if present is not None:
            known = present < self._arena.position
            present = self._arena.again(present) if known else self._get((), np.dtype(np.bool_))
        if kind is CodedColumn:
            return CodedColumn(rows, self._get((), np.dtype(np.uint8)), form[0], present)
        origin, dtype, shape = form
        return ArrayColumn(rows, self._get(shape, dtype), origin, present)

    def _get(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return self._arena.get((next(self._lengths), *shape), dtype)
