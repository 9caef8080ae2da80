"""Methods and attributes of the environments behind a vector environment.

A native batch calls the hooks of its first environment for all of its rows. So
environments whose attributes differ do not step as one batch
(`same_attributes`), and an attribute cannot be made to differ afterwards
(`check_shared`): the hooks would not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from superdex.lab.gym.envs.mochi_env import MochiEnv
from superdex.lab.gym.vector.errors import name_environment

__all__ = ["call_envs", "check_shared", "run_all", "same_attributes", "set_env_attr"]


def call_envs(
    envs: Sequence[gymnasium.Env],
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    environments: Iterable[int] | None = None,
    first_environment: int = 0,
) -> list[Any]:
    """What `name` returns for environments: a method's result, or an attribute.

    `environments` are global indices, None for all; that of `envs[0]` is `first_environment`. An
    exception gets a note with the global index.
    """
    if environments is None:
        environments = range(first_environment, first_environment + len(envs))
    results = []
    for index in environments:
        try:
            member = envs[index - first_environment].get_wrapper_attr(name)
            results.append(member(*args, **kwargs) if callable(member) else member)
        except Exception as error:
            name_environment(error, index)
            raise
    return results


def set_env_attr(envs: Sequence[gymnasium.Env], name: str, values: Sequence[Any], first_environment: int = 0) -> None:
    """Set `name` of each environment to its value."""
    for index, (env, value) in enumerate(zip(envs, values, strict=True), first_environment):
        try:
            env.set_wrapper_attr(name, value)
        except Exception as error:
            name_environment(error, index)
            raise


def check_shared(name: str, values: Sequence[Any], batches: Iterable[Sequence[int]]) -> None:
    """Refuse values of an attribute that differ within a native batch; `batches` has the environments of each."""
    for batch in batches:
        for environment in batch:
            if not _same(values[environment], values[batch[0]]):
                raise ValueError(
                    f"{name!r} cannot differ between environments {batch[0]} and {environment}, which step as one"
                    " native batch: its hooks read the first one's. Make it task state (`task_state`), or a field of"
                    " the configuration of environments made anew."
                )


def same_attributes(env: MochiEnv, other: MochiEnv) -> bool:
    """Whether two environments of one class hold equal attributes, apart from `own_attributes`."""
    mine, theirs = vars(env), vars(other)
    names = (mine.keys() | theirs.keys()) - env.own_attributes
    return all(name in mine and name in theirs and _same(mine[name], theirs[name]) for name in names)


def _same(one: Any, other: Any) -> bool:
    """Equality by value as far as values tell; objects that do not define it are compared by what they hold."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if type(one).__eq__ is not object.__eq__:
        return bool(one == other)
    return not hasattr(one, "__dict__") or _same(vars(one), vars(other))


def run_all(actions: Iterable[Callable[[], Any]]) -> None:
    """Run all `actions`; the first exception is raised once all were run."""
    errors: list[Exception] = []
    for action in actions:
        try:
            action()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
