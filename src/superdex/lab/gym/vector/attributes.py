"""Methods and attributes of the environments behind a vector environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium

from superdex.lab.gym.vector.errors import name_environment

__all__ = ["call_envs", "run_all", "set_env_attr"]


def call_envs(
    envs: Sequence[gymnasium.Env], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], first_environment: int = 0
) -> list[Any]:
    """What `name` returns for each environment: a method's result, or an attribute.

    An exception gets a note with the global index; `first_environment` is that of `envs[0]`.
    """
    results = []
    for index, env in enumerate(envs, first_environment):
        try:
            member = env.get_wrapper_attr(name)
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
