"""Gathers the info dicts of environments, one at a time, into columns.

    collector = Collector(num_envs)
    for row, env in enumerate(envs):
        observation, info = env.reset()
        collector.add(row, info)
    columns = collector.columns()

`add` copies what the environment could still change: arrays, containers and
other objects (by `copy.deepcopy`; an object that refuses is kept as it is).
An environment may therefore fill one info dict again and again. Values are kept
apart by their type, so that none is cast before `merge` has seen all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from superdex.lab.gym.vector.columns import (
    ArrayColumn,
    CodedColumn,
    Column,
    ColumnRows,
    Columns,
    NestedColumn,
    ObjectColumn,
)
from superdex.lab.gym.vector.infos import FINAL_OBS

__all__ = ["Collector", "capture"]

_IMMUTABLE = frozenset({int, float, bool, complex, str, bytes, type(None)})
_MAX_CODES = 256


def capture(value: Any) -> Any:
    """`value`, or a copy of it if it could change."""
    if type(value) in _IMMUTABLE or isinstance(value, np.number | np.bool_):
        return value
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return np.array(value)
    try:
        return deepcopy(value)
    except Exception:  # whatever a foreign object raises, it cannot be copied
        return value


class _Entry:
    """What the environments gave for one key."""

    __slots__ = ("dict_rows", "dicts", "rows", "values")

    def __init__(self, num_envs: int) -> None:
        self.rows: list[int] = []
        self.values: list[Any] = []
        self.dict_rows: list[int] = []
        self.dicts: Collector = Collector(num_envs)


class Collector:
    """Info dicts of `num_envs` environments, added in ascending order of rows."""

    def __init__(self, num_envs: int) -> None:
        self._num_envs = num_envs
        self._entries: dict[Hashable, _Entry] = {}

    def add(self, row: int, info: dict[Any, Any]) -> None:
        """Take in the info of environment `row`."""
        for key, value in info.items():
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(self._num_envs)
            if isinstance(value, dict) and key != FINAL_OBS:
                entry.dict_rows.append(row)
                entry.dicts.add(row, value)
            else:
                entry.rows.append(row)
                entry.values.append(capture(value))

    def columns(self) -> Columns:
        """All that was added."""
        return {key: self._columns_of(entry) for key, entry in self._entries.items()}

    def _columns_of(self, entry: _Entry) -> list[Column]:
        columns: list[Column] = []
        if entry.dict_rows:
            columns.append(NestedColumn(self._pack(entry.dict_rows), entry.dicts.columns()))
        groups: dict[Hashable, tuple[list[int], list[Any]]] = {}
        for row, value in zip(entry.rows, entry.values, strict=True):
            rows, values = groups.setdefault(_group_of(value), ([], []))
            rows.append(row)
            values.append(value)
        columns += [_column(group, self._pack(rows), values) for group, (rows, values) in groups.items()]
        return columns

    def _pack(self, rows: list[int]) -> ColumnRows:
        return None if len(rows) == self._num_envs else np.array(rows, dtype=np.int64)


def _group_of(value: Any) -> Hashable:
    """What a value must have in common with others to share a column."""
    kind = type(value)
    if kind is float or kind is bool:
        return kind
    if kind is int:
        return int if -(2**63) <= value < 2**63 else object
    if kind is str or value is None:
        return str
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape
    if isinstance(value, np.number) and value.dtype.kind in "iufc":
        return kind
    return object


def _column(group: Hashable, rows: ColumnRows, values: list[Any]) -> Column:
    if group is object:
        return ObjectColumn(rows, values)
    if group is str:
        return _coded_column(rows, values)
    if isinstance(group, tuple):
        return ArrayColumn(rows, np.stack(values, dtype=group[0]), np.ndarray)
    assert isinstance(group, type)
    return ArrayColumn(rows, np.array(values, dtype=group), group)


def _coded_column(rows: ColumnRows, values: Sequence[str | None]) -> Column:
    codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
    if len(codes) > _MAX_CODES:
        return ObjectColumn(rows, list(values))
    return CodedColumn(rows, np.array([codes[value] for value in values], dtype=np.uint8), tuple(codes))
