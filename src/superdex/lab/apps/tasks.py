"""Tasks, found by the names that people type.

A registered task has one name, with or without its version and namespace; a class of one's own is
given as module:Class.

    task = find_task("CartPole")                # or "CartPole-v0", "superdex_gym/CartPole-v0"
    task = find_task("my_tasks:PendulumEnv")    # modules are looked for in the working directory, too
    factories = task.factories(1000)            # importable, as worker processes need them
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import gymnasium
import tyro

from superdex.lab.apps.errors import UserError
from superdex.lab.gym import TASKS
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.registration import NAMESPACE

__all__ = ["CfgOption", "Task", "all_tasks", "find_task", "nearest", "parse_cfg"]

CfgOption = Annotated[tuple[str, ...], tyro.conf.arg(metavar="FIELD=VALUE [...]", help_behavior_hint="(default: none)")]
"""The option by which a command takes configuration fields."""


@dataclass(frozen=True)
class Task:
    """A task of the registry, or a class."""

    name: str
    """Without namespace and version, as in "CartPole"."""
    task_id: str
    """As Gymnasium knows it, "superdex_gym/CartPole-v0", or "module:Class"."""
    cfg: tuple[tuple[str, Any], ...] = ()
    """Configuration fields that were changed, and their values."""

    @property
    def fields(self) -> dict[str, Any]:
        """The configuration fields that differ from the defaults of the task's class."""
        spec = gymnasium.registry.get(self.task_id)
        return {**({} if spec is None else spec.kwargs), **dict(self.cfg)}

    @property
    def env_class(self) -> type[MochiEnv]:
        """The class that makes the environments.

        Raises:
            UserError: if there is none of that name, or it is not a task.
        """
        spec = gymnasium.registry.get(self.task_id)
        return _import_class(self.task_id if spec is None else str(spec.entry_point))

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


def find_task(name: str, cfg: Mapping[str, Any] | None = None) -> Task:
    """The task of that name: a registered one, with or without its version and namespace, or a module:Class.

    Args:
        name: what was typed.
        cfg: fields of its configuration that are to be changed.

    Raises:
        UserError: if there is none; the message names the nearest. Or if its configuration refuses `cfg`.
    """
    task = _named(name)
    if cfg:
        task = replace(task, cfg=tuple(sorted(cfg.items())))
        try:
            task.env_class.Cfg.make(task.fields)
        except (TypeError, ValueError) as error:
            raise UserError(f"--cfg: {error}") from error
    return task


def parse_cfg(settings: Iterable[str]) -> dict[str, Any]:
    """The fields of `field=value` settings, each value as Python writes it, or else as text.

    Raises:
        UserError: if one is something else.
    """
    return dict(map(_parse, settings))


def _parse(setting: str) -> tuple[str, Any]:
    field, equals, text = setting.partition("=")
    if not (field and equals):
        raise UserError(f"--cfg takes FIELD=VALUE, as in --cfg steps_per_episode=100, got {setting!r}.")
    try:
        return field, ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return field, {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _named(name: str) -> Task:
    if ":" in name:
        task = Task(name.rpartition(":")[2].removesuffix("Env"), name)
        _ = task.env_class  # raises here and now if there is none
        return task
    known: dict[str, Task] = {}
    for task in all_tasks():
        known.update(dict.fromkeys((task.name, task.task_id.partition("/")[2], task.task_id), task))
    if name in known:
        return known[name]
    by_lower_case = {key.lower(): task.name for key, task in known.items()}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    hint = f"Did you mean {by_lower_case[close[0]]!r}? `superdex list` shows all." if close else _remedy()
    raise UserError(f"There is no task {name!r}. {hint}")


def _remedy() -> str:
    return f"There are: {', '.join(task.name for task in all_tasks())}, and classes of your own, as module:Class."


def _import_class(path: str) -> type[MochiEnv]:
    """The class of a module:Class."""
    module_name, _, class_name = path.partition(":")
    here = os.getcwd()
    if not {"", here} & set(sys.path):
        sys.path.insert(0, here)  # as `python -m` does
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UserError(
            f"Module {module_name!r} cannot be imported: {type(error).__name__}: {error} (Modules are looked for in the"
            " working directory and on PYTHONPATH.)"
        ) from error
    tasks = [key for key, value in vars(module).items() if _is_task(value)]
    env_class = getattr(module, class_name, None)
    if env_class is None:
        raise UserError(f"Module {module_name!r} has no {class_name!r}. {nearest(class_name, tasks)}")
    if not _is_task(env_class):
        raise UserError(f"{path} is not a class that derives from MochiEnv. {nearest(class_name, tasks)}")
    return env_class


def _is_task(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, MochiEnv) and value is not MochiEnv


def nearest(name: str, known: Collection[str]) -> str:
    """Which of the known names was meant, or what they are, for a message."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known) or 'none'}."
