"""Infos of many environments as columns, and their merge into Gymnasium's form.

A vector environment returns one dict for all of its environments: for each key
an array over environments, and under `_key` a mask of those that have the key.
Between an environment and that dict, infos travel as `Columns`: for each key a
list of columns, each the values of that key for some environments.

    columns: Columns = {"speed": [ArrayColumn(None, speeds, float)]}
    columns["terminated_reason"] = [CodedColumn(rows, codes, (None, "Fell over"))]
    infos = merge(columns, num_envs)     # {"speed": ..., "_speed": ..., ...}

Columns of several workers are concatenated (`relocate`, `extend`) and merged
once, in the caller's process. So what is merged does not depend on how the
environments were split, and neither do the dtypes of the result.

**What `merge` promises.** Wherever all environments give a key values of one
type (and shape), the result is what `gymnasium.vector.SyncVectorEnv` returns:
Python numbers become int64, float64 or bool arrays, NumPy numbers and arrays
keep their dtype, dicts become nested dicts with masks of their own, anything
else an object array; environments without the key hold zero or None. Under the
key "final_obs" the values are kept as they are, in an object array.

**Where Gymnasium lets the first environment decide, `merge` does not:**

- numbers of several types get the dtype that NumPy promotes all of them to
  (Gymnasium cuts the 2.5 of `{k: 1}, {k: 2.5}` down to 2);
- string arrays get the width of the longest (Gymnasium cuts off);
- arrays of several shapes, numbers beside strings or None, dicts beside numbers
  and integers beyond int64 become an object array of the original values
  (Gymnasium fails, or files the value under an environment's index);
- an env's own key `_k` gives way to the mask of its key `k`.

The result never shares memory with the columns it was made from, objects aside:
those are copied when they are collected (`superdex.lab.gym.vector.collector`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from superdex.lab.gym.vector.columns import (
    ArrayColumn,
    CodedColumn,
    Column,
    ColumnRows,
    Columns,
    NestedColumn,
    ObjectColumn,
    move_rows,
)

__all__ = ["FINAL_OBS", "extend", "merge", "relocate", "select"]

FINAL_OBS = "final_obs"
"""The key whose values Gymnasium never batches."""

_NUMBERS = frozenset("biufc")
_WIDENING = frozenset("SUmM")


def extend(columns: Columns, other: Columns) -> Columns:
    """Append `other`'s columns to `columns`, in place; a row in both takes its value from `other`."""
    for key, parts in other.items():
        known = columns.get(key)
        if known is None:
            columns[key] = list(parts)
        else:
            known.extend(parts)
    return columns


def select(columns: Columns, mask: NDArray[np.bool_]) -> Columns:
    """The columns restricted to the environments where `mask` (num_envs,) is True."""
    chosen: Columns = {}
    for key, parts in columns.items():
        kept = [small for part in parts if (small := _select_column(part, mask)) is not None]
        if kept:
            chosen[key] = kept
    return chosen


def relocate(columns: Columns, target: NDArray[np.int64] | slice) -> Columns:
    """The columns of a part of the environments, as columns of the whole.

    `target` says where the part lies: a slice with start and stop, or the sorted
    global index of each of its environments.
    """
    return {key: [_relocate_column(part, target) for part in parts] for key, parts in columns.items()}


def merge(columns: Columns, num_envs: int) -> dict[Any, Any]:
    """The infos of `num_envs` environments in Gymnasium's form (see the module's docstring)."""
    masks = {key: f"_{key}" for key in columns}
    taken = set(masks.values())
    merged: dict[Any, Any] = {}
    for key, parts in columns.items():
        if key not in taken:
            merged[key] = _merge_values(key, parts, num_envs)
            merged[masks[key]] = mask = np.zeros(num_envs, dtype=np.bool_)
            for part in parts:
                present = None if isinstance(part, ObjectColumn | NestedColumn) else part.present
                mask[slice(None) if part.rows is None else part.rows] = True if present is None else present
    return merged


def _merge_values(key: Hashable, parts: list[Column], num_envs: int) -> np.ndarray | dict[Any, Any]:
    if key == FINAL_OBS:
        return _merge_objects(parts, num_envs)
    arrays = [part for part in parts if isinstance(part, ArrayColumn)]
    if len(arrays) == len(parts):
        dtype = _common_dtype([part.values for part in arrays])
        if dtype is not None:
            out = np.zeros((num_envs, *arrays[0].values.shape[1:]), dtype)
            for part in arrays:
                out[slice(None) if part.rows is None else part.rows] = part.values
            return out
    nested = [part for part in parts if isinstance(part, NestedColumn)]
    if len(nested) == len(parts):
        inner: Columns = {}
        for part in nested:
            extend(inner, part.columns)
        return merge(inner, num_envs)
    return _merge_objects(parts, num_envs)


def _common_dtype(values: list[np.ndarray]) -> np.dtype | None:
    """The dtype that holds all `values`, or None where only objects do.

    It is looked up once, over the sorted set: pairwise promotion would depend on the order.
    """
    if len({v.shape[1:] for v in values}) > 1:
        return None
    dtypes = {v.dtype for v in values}
    if len(dtypes) == 1:
        return values[0].dtype
    dtypes = sorted(dtypes, key=str)
    kinds = {dtype.kind for dtype in dtypes}
    if kinds <= _NUMBERS or (len(kinds) == 1 and kinds <= _WIDENING):
        return np.result_type(*dtypes)
    return None


def _merge_objects(parts: list[Column], num_envs: int) -> np.ndarray:
    out = np.empty(num_envs, dtype=object)  # NumPy fills it with None
    for part in parts:
        if isinstance(part, CodedColumn):
            part.write(out)
        else:
            for row, value in zip(_iterate_rows(part.rows, num_envs), _objects(part, num_envs), strict=True):
                out[row] = value
    return out


def _objects(part: Column, num_envs: int) -> Iterable[Any]:
    """The values of a column as the environments gave them, nested dicts put together again."""
    if isinstance(part, ArrayColumn | CodedColumn):
        return part.compact().objects()
    if isinstance(part, ObjectColumn):
        return part.objects()
    dicts: dict[int, dict[Any, Any]] = {row: {} for row in _iterate_rows(part.rows, num_envs)}
    for key, columns in part.columns.items():
        for column in columns:
            rows = _iterate_rows(column.rows, num_envs)
            for row, value in zip(rows, _objects(column, num_envs), strict=True):
                dicts[row][key] = value
    return dicts.values()


def _compact(part: Column) -> Column:
    return part.compact() if isinstance(part, ArrayColumn | CodedColumn) else part


def _select_column(part: Column, mask: NDArray[np.bool_]) -> Column | None:
    part = _compact(part)
    rows = np.arange(len(mask))[slice(None) if part.rows is None else part.rows]
    kept = np.flatnonzero(mask[rows])
    if not kept.size:
        return None
    if isinstance(part, NestedColumn):
        return NestedColumn(rows[kept], select(part.columns, mask))
    return part.take(rows[kept], kept)


def _relocate_column(part: Column, target: NDArray[np.int64] | slice) -> Column:
    if isinstance(part, NestedColumn):
        return NestedColumn(move_rows(part.rows, target), relocate(part.columns, target))
    return part.moved(target)


def _iterate_rows(rows: ColumnRows, num_envs: int) -> Iterable[int]:
    if rows is None:
        return range(num_envs)
    return range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
