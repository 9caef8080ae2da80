"""What a task's hooks change besides what they are given.

A `Watch` looks at everything in reach of a task's code before and after each call
of a hook: the environment's attributes, the variables of its classes, closures
and function attributes, the global variables that its code names, here and in the
functions that it calls, and the global random generators. It sees values, not
objects: a list that is appended to has changed.
"""

from __future__ import annotations

import random
import sys
import sysconfig
import types
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.testing.faults import HOOKS, task_classes
from superdex.lab.gym.testing.fingerprints import Fingerprint, fingerprint, stored_attributes

__all__ = ["GENERATORS", "Watch"]

GENERATORS = ("numpy.random's global generator", "random's global generator")

_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class Watch:
    """Wraps the hooks of an environment, and collects what each changes."""

    def __init__(self, env: MochiEnv) -> None:
        self._env: Any = env
        self._ignored = _attributes_of_the_base() | set(HOOKS)
        self._variables = list(_variables(type(env)))
        self.num_calls = 0
        self.changes: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        """For each place: the calls, by number and hook, in which it changed."""
        self.seen = self.look()
        """Fingerprints by place, after the last call."""
        for hook in HOOKS:
            setattr(env, hook, partial(self._called, hook, getattr(env, hook)))

    def look(self) -> dict[str, Fingerprint]:
        """The present values, by place."""
        seen = {
            f"self.{name}": fingerprint(value) for name, value in vars(self._env).items() if name not in self._ignored
        }
        for place, namespace, name in self._variables:
            if name in namespace:
                seen[place] = fingerprint(namespace[name])
        seen[GENERATORS[0]] = fingerprint(np.random.get_state())
        seen[GENERATORS[1]] = random.getstate()
        return seen

    def _called(self, hook: str, original: Any, *args: Any) -> Any:
        self._note("code between the hooks")
        self.num_calls += 1
        try:
            result = original(*args)
            return list(result) if hook == "_check_stop_criteria" else result
        finally:
            self._note(hook)

    def _note(self, hook: str) -> None:
        now = self.look()
        for place in now.keys() | self.seen.keys():
            if now.get(place) != self.seen.get(place):
                self.changes[place].append((self.num_calls, hook))
        self.seen = now


@cache
def _attributes_of_the_base() -> frozenset[str]:
    """The attributes that the library sets on environments; the configuration alone is a task's to leave alone."""
    return stored_attributes(MochiEnv) - {"cfg"}


def _variables(env_class: type[MochiEnv]) -> Iterator[tuple[str, Any, str]]:
    """Variables that outlive a call, in reach of a task's code: place, namespace and name."""
    own_root = env_class.__module__.partition(".")[0]
    functions: list[types.FunctionType] = []
    for kind in task_classes(env_class):
        for name, value in list(vars(kind).items()):
            function = _function_of(value)
            if function is not None:
                functions.append(function)
            elif not name.startswith("__") and not isinstance(value, type):
                yield f"{kind.__name__}.{name}", vars(kind), name
    known = set(functions)
    while functions:
        function = functions.pop()
        yield from _variables_of(function)
        for namespace, name in _named_globals(function):
            value = namespace[name]
            called = _function_of(value)
            if called is not None:
                if called not in known and _is_own(called, own_root):
                    known.add(called)
                    functions.append(called)
            elif not isinstance(value, type | types.ModuleType | types.BuiltinFunctionType):
                yield f"{namespace.get('__name__', '')}.{name}", namespace, name


def _variables_of(function: types.FunctionType) -> Iterator[tuple[str, Any, str]]:
    """A function's own attributes, mutable defaults and closure."""
    name = function.__qualname__
    for attribute in vars(function):
        yield f"{name}.{attribute}", vars(function), attribute
    inner: dict[str, Any] = {"defaults": (function.__defaults__, function.__kwdefaults__)}
    yield f"the default arguments of {name}", inner, "defaults"
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if variable != "__class__":
            yield f"{variable} of {name}", _Cell(cell), "cell_contents"


class _Cell:
    """A closure's variable as a namespace of one name."""

    def __init__(self, cell: types.CellType) -> None:
        self._cell = cell

    def __contains__(self, name: str) -> bool:
        try:
            self._cell.cell_contents  # noqa: B018
        except ValueError:  # not assigned yet
            return False
        return True

    def __getitem__(self, name: str) -> Any:
        return self._cell.cell_contents


def _named_globals(function: types.FunctionType) -> Iterator[tuple[dict[str, Any], str]]:
    """Global variables that a function's code names, and those of modules that it names."""
    codes, names = [function.__code__], set[str]()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        if isinstance(value, types.ModuleType):
            if not _is_library(getattr(value, "__file__", None)):
                yield from ((vars(value), other) for other in sorted(names & vars(value).keys()))
        else:
            yield function.__globals__, name


def _function_of(value: Any) -> types.FunctionType | None:
    """The Python function in a method, property, partial or decorator."""
    for attribute in ("__func__", "fget", "func", "__wrapped__"):
        inner = getattr(value, attribute, None)
        if isinstance(inner, types.FunctionType):
            return inner
    return value if isinstance(value, types.FunctionType) else None


def _is_own(function: types.FunctionType, own_root: str) -> bool:
    """Whether a function is of the task's authors, and not of a library."""
    module = sys.modules.get(function.__module__)
    root = function.__module__.partition(".")[0]
    return root == own_root or not (root == "superdex" or _is_library(getattr(module, "__file__", None)))


def _is_library(file: str | None) -> bool:
    return file is None or file.startswith(_LIBRARIES)
