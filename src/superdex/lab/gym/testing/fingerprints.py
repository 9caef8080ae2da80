"""Values as comparable things that are equal only if nothing in the value changed."""

from __future__ import annotations

import dis
import hashlib
import logging
import random
import types
from collections import deque
from collections.abc import Hashable, Mapping, Set
from functools import cached_property
from typing import Any

import numpy as np

__all__ = ["Fingerprint", "fingerprint", "stored_attributes"]

Fingerprint = Hashable

_DEPTH = 8
_LONGEST_REPR = 1000
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_OPAQUE = (
    type, types.FunctionType, types.ModuleType, types.BuiltinFunctionType, types.MethodType, logging.Logger
)  # fmt: skip
_STORES = ("STORE_ATTR", "DELETE_ATTR")


def fingerprint(value: Any, depth: int = _DEPTH, seen: frozenset[int] = frozenset()) -> Fingerprint:
    """What a value is made of, down to `depth` levels of containers and attributes.

    Two values of one fingerprint are alike as far as can be seen: objects without
    attributes count by their text, and what has none (models, files) by its type.
    """
    if isinstance(value, _PLAIN):
        return type(value), repr(value)
    if isinstance(value, np.ndarray | np.generic):
        return _of_array(np.asarray(value), depth, seen)
    if isinstance(value, _OPAQUE) or depth == 0 or id(value) in seen or _is_of_library(value):
        return (type(value),)
    seen |= {id(value)}
    if isinstance(value, np.random.Generator):
        return np.random.Generator, repr(value.bit_generator.state)
    if isinstance(value, random.Random):
        return random.Random, value.getstate()
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        return (type(value), frame and (frame.f_lasti, fingerprint(frame.f_locals, depth - 1, seen)))
    parts: list[Any]
    if isinstance(value, Mapping):
        parts = [item for pair in value.items() for item in pair]
    elif isinstance(value, list | tuple | deque):
        parts = list(value)
    elif isinstance(value, Set):
        return type(value), frozenset(fingerprint(item, depth - 1, seen) for item in value)
    else:
        parts = []
    attributes = _attributes(value)
    if not parts and not attributes:
        return type(value), _text(value)
    return (
        type(value),
        tuple(fingerprint(part, depth - 1, seen) for part in parts),
        tuple((name, fingerprint(part, depth - 1, seen)) for name, part in attributes.items()),
    )


def stored_attributes(kind: type) -> frozenset[str]:
    """Attributes that the methods of a class and its bases set on anything."""
    names: set[str] = set()
    for base in kind.__mro__:
        for name, value in vars(base).items():
            if isinstance(value, cached_property):
                names.add(name)
            for part in (value, *(getattr(value, inner, None) for inner in ("func", "fget", "fset", "__func__"))):
                if isinstance(part, types.FunctionType):
                    stores = (each for each in dis.get_instructions(part) if each.opname in _STORES)
                    names.update(each.argval for each in stores)
    return frozenset(names)


def _of_array(array: np.ndarray, depth: int, seen: frozenset[int]) -> Fingerprint:
    if array.dtype.hasobject:
        return array.shape, fingerprint(array.tolist(), depth, seen)
    return array.dtype.str, array.shape, hashlib.blake2b(array.tobytes(), digest_size=16).digest()


def _is_of_library(value: Any) -> bool:
    """Whether a value is the engine's: models, simulations and scenes, which other checks look after."""
    return type(value).__module__.partition(".")[0] == "mujoco" or type(value).__module__.startswith("superdex.physics")


def _attributes(value: Any) -> dict[str, Any]:
    attributes = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                attributes[name] = getattr(value, name)
    return attributes


def _text(value: Any) -> str:
    """`repr`, which is where iterators and counters show their state, unless it is an address."""
    try:
        text = repr(value)
    except Exception:
        return ""
    return "" if " at 0x" in text else text[:_LONGEST_REPR]
