"""Two compiled models, compared field by field."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

__all__ = ["model_differences"]

_GROUPS = ("opt", "stat", "vis")
_IGNORED = frozenset(("signature", "nbuffer", "narena", "paths"))
"""What follows from other fields, and where files lie."""


def model_differences(one: mujoco.MjModel, other: mujoco.MjModel) -> list[str]:
    """The fields in which two models differ, as `geom_friction` or `opt.gravity`; those that follow from others last.

    Sizes are named only if nothing else differs.
    """
    names = [name for name in dir(one) if not name.startswith("_") and name not in (*_GROUPS, *_IGNORED)]
    different = [name for name in names if not _same(getattr(one, name), getattr(other, name))]
    for group in _GROUPS:
        different += _group_differences(group, getattr(one, group), getattr(other, group))
    arrays = [name for name in different if not isinstance(getattr(one, name, None), int)]
    return sorted(arrays or different, key=_is_computed)


def _is_computed(name: str) -> bool:
    """Whether the compiler computes a field from others."""
    return name.startswith(("bvh", "stat.")) or name.endswith(("0", "subtreemass", "rbound", "aabb"))


def _group_differences(path: str, one: Any, other: Any) -> list[str]:
    different = []
    for name in dir(one):
        value = getattr(one, name)
        if name.startswith("_") or callable(value):
            continue
        if isinstance(value, int | float | np.ndarray):
            if not _same(value, getattr(other, name)):
                different.append(f"{path}.{name}")
        else:
            different += _group_differences(f"{path}.{name}", value, getattr(other, name))
    return different


def _same(one: Any, other: Any) -> bool:
    if callable(one):
        return True
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and one.tobytes() == other.tobytes()
    return one == other or (one != one and other != other)
