"""The registered tasks, found by the names that people type.

A task has one name, with or without its version and namespace:

    task = find_task("CartPole")                # or "CartPole-v0", "superdex_gym/CartPole-v0"
    factories = task.factories(1000)            # importable, as worker processes need them
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium

from superdex.lab.apps.errors import UserError
from superdex.lab.gym import TASKS
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.registration import NAMESPACE

__all__ = ["Task", "all_tasks", "find_task"]


@dataclass(frozen=True)
class Task:
    """A registered task."""

    name: str
    """Without namespace and version, as in "CartPole"."""
    task_id: str
    """As Gymnasium knows it, "superdex_gym/CartPole-v0"."""

    @property
    def fields(self) -> dict[str, Any]:
        """The configuration fields that differ from the defaults of the task's class."""
        return dict(gymnasium.registry[self.task_id].kwargs)

    @property
    def env_class(self) -> type[MochiEnv]:
        """The class that the id makes."""
        module, _, name = str(gymnasium.registry[self.task_id].entry_point).partition(":")
        return getattr(importlib.import_module(module), name)

    def make(self, **fields: Any) -> MochiEnv:
        """One environment, with `fields` of its configuration changed."""
        return self.env_class({**self.fields, **fields})

    def factories(self, num_envs: int, **fields: Any) -> list[Callable[[], MochiEnv]]:
        """A factory per environment, with `fields` of the configuration changed; they can be pickled."""
        env_class, config = self.env_class, {**self.fields, **fields}
        return [partial(env_class, config) for _ in range(num_envs)]


def all_tasks() -> list[Task]:
    """The registered tasks, in alphabetical order."""
    return [Task(name.rpartition("-v")[0], f"{NAMESPACE}/{name}") for name in sorted(TASKS)]


def find_task(name: str) -> Task:
    """The task of that name, which may be given with or without its version and namespace.

    Raises:
        UserError: if there is none; the message names the nearest.
    """
    known: dict[str, Task] = {}
    for task in all_tasks():
        known.update(dict.fromkeys((task.name, task.task_id.partition("/")[2], task.task_id), task))
    if name in known:
        return known[name]
    by_lower_case = {key.lower(): task.name for key, task in known.items()}
    nearest = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    hint = f"Did you mean {by_lower_case[nearest[0]]!r}? `superdex list` shows all." if nearest else _remedy()
    raise UserError(f"There is no task {name!r}. {hint}")


def _remedy() -> str:
    return f"There are: {', '.join(task.name for task in all_tasks())}."
