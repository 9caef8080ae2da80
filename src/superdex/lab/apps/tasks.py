"""Tasks, found by the names that people type.

A task of ours has one name, with or without its version and namespace. One's own is a class, given
as module:Class, or a Gymnasium id, as in `gymnasium.make`: module:id, where importing the module registers
the id, or the id alone if it is registered without that, as those of installed plug-ins are.

    task = find_task("CartPole")                # or "CartPole-v0", "superdex_gym/CartPole-v0"
    task = find_task("my_tasks:PendulumEnv")    # modules are looked for in the working directory, too
    task = find_task("my_tasks:my/Pendulum-v0")
    task = task_of_class(PendulumEnv)
    factories = task.factories(1000)            # importable, as worker processes need them

What follows the colon is a class if the module has anything of that name, and an id otherwise; names with
a slash or a hyphen can only be ids.
"""

from __future__ import annotations

import ast
import difflib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from superdex.lab.apps.checking import nearest
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.lookup import class_at, class_of, has, is_task, offers, registered, spec_at
from superdex.lab.gym import TASKS
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.registration import NAMESPACE

__all__ = [
    "Task",
    "all_tasks",
    "configured_task",
    "find_task",
    "format_cfg",
    "parse_cfg",
    "task_of_class",
]


@dataclass(frozen=True)
class Task:
    """A task of the registry, or a class."""

    name: str
    """Without namespace and version, as in "CartPole"."""
    task_id: str
    """As Gymnasium knows it, "superdex_gym/CartPole-v0" or "module:my/Pendulum-v0", or else "module:Class"."""
    cfg: tuple[tuple[str, Any], ...] = ()
    """Configuration fields that were changed, and their values."""

    @property
    def is_ours(self) -> bool:
        """Whether it is one of this library's registered tasks."""
        return self.task_id.startswith(f"{NAMESPACE}/")

    @property
    def fields(self) -> dict[str, Any]:
        """The configuration fields that differ from the defaults of the task's class."""
        spec = spec_at(self.task_id)
        return {**({} if spec is None else spec.kwargs), **dict(self.cfg)}

    @property
    def env_class(self) -> type[MochiEnv]:
        """The class that makes the environments.

        Raises:
            UserError: if there is none of that name, or it is not a task.
        """
        spec = spec_at(self.task_id)
        return class_at(self.task_id) if spec is None else class_of(spec)

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
    """The task of that name: one of ours, with or without its version and namespace, a module:Class, or an id.

    Args:
        name: what was typed.
        cfg: fields of its configuration that are to be changed.

    Raises:
        UserError: if there is none; the message names the nearest. Or if its configuration refuses `cfg`, or is not
            valid without it, either.
    """
    return _configured(_named(name), cfg or {})


def configured_task(name: str, settings: Iterable[str]) -> Task:
    """The task that a command is given, by its name and the `field=value` settings of --cfg.

    Raises:
        UserError: as `find_task`, and `parse_cfg`.
    """
    return _configured(_named(name), parse_cfg(settings), "--cfg: ")


def task_of_class(env_class: type[MochiEnv], cfg: Mapping[str, Any] | None = None) -> Task:
    """The task of a class, which must be found again by its name: at the top level of its module.

    A class of ours stands for the registered task that it is without further fields.

    Raises:
        UserError: if it is no task, or is defined within a function. Or if its configuration is refused, as by
            `find_task`.
    """
    if not is_task(env_class):
        raise UserError(f"A task must be a name, or a class that derives from MochiEnv, got {env_class!r}.")
    module, name = env_class.__module__, env_class.__qualname__
    if getattr(sys.modules.get(module), name, None) is not env_class:
        raise UserError(f"{name} must be defined at the top level of its module, where it can be found again by name.")
    return _configured(_ours(env_class) or Task(_short(name), f"{module}:{name}"), cfg or {})


def _configured(task: Task, cfg: Mapping[str, Any], source: str = "") -> Task:
    """The task with these fields changed, whose configuration is then valid; `source` begins what is said of them."""
    configured = replace(task, cfg=tuple(sorted(cfg.items())))
    error = _refusal(configured)
    if error is None:
        return configured
    default = _refusal(task)
    if default is None:
        raise UserError(f"{source}{error}") from error
    spec = spec_at(task.task_id)
    if spec is not None and spec.kwargs:
        raise UserError(f"{spec.id} is registered with kwargs={spec.kwargs}: {default}") from default
    name = task.env_class.Cfg.__name__
    raise UserError(f"The defaults of {task.task_id}, those of {name}, are not valid: {default}") from default


def _refusal(task: Task) -> TypeError | ValueError | None:
    """What the task's configuration has against its fields."""
    try:
        task.env_class.Cfg.make(task.fields)
    except (TypeError, ValueError) as error:
        return error
    return None


def parse_cfg(settings: Iterable[str]) -> dict[str, Any]:
    """The fields of `field=value` settings, each value as Python writes it, or else as text.

    Raises:
        UserError: if one is something else, or two are of one field.
    """
    cfg: dict[str, Any] = {}
    for field, value in map(_parse, settings):
        if field in cfg:
            raise UserError(f"--cfg: {field} is given twice, as {cfg[field]!r} and as {value!r}: give it once.")
        cfg[field] = value
    return cfg


def format_cfg(cfg: Mapping[str, Any]) -> list[str]:
    """Settings that `parse_cfg` reads as `cfg`: values as text where that will do, as Python writes them otherwise."""
    texts = [(f"{field}={value}", f"{field}={value!r}") for field, value in cfg.items()]
    return [plain if parse_cfg([plain]) == parse_cfg([exact]) else exact for plain, exact in texts]


def _parse(setting: str) -> tuple[str, Any]:
    field, equals, text = setting.partition("=")
    if not (field and equals):
        raise UserError(f"--cfg takes FIELD=VALUE, as in --cfg steps_per_episode=100, got {setting!r}.")
    try:
        return field, ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):  # all that it is documented to raise
        return field, {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _named(name: str) -> Task:
    known: dict[str, Task] = {}
    for task in all_tasks():
        known.update(dict.fromkeys((task.name, task.task_id.partition("/")[2], task.task_id), task))
    if name in known:
        return known[name]
    module, colon, rest = name.rpartition(":")
    if colon and has(module, rest):
        return _ours(class_at(name)) or Task(_short(rest), name)  # raises here and now if there is no class
    spec = registered(rest)
    if spec is not None:
        class_of(spec)  # raises if it is no task
        return Task(spec.name, f"{module}{colon}{spec.id}")
    if module == "__main__":
        raise UserError(f"{rest} was defined in a script that does not run now; put it into a module of its own.")
    if colon:
        raise UserError(f"Module {module!r} has no {rest!r}, and registers no such id. {nearest(rest, offers(module))}")
    raise UserError(f"There is no task {name!r}. {_remedy(name, known)}")


def _ours(env_class: type[MochiEnv]) -> Task | None:
    """The registered task of ours that a class is without further fields, if it is one."""
    if not env_class.__module__.startswith("superdex."):
        return None
    return next((task for task in all_tasks() if not task.fields and task.env_class is env_class), None)


def _short(class_name: str) -> str:
    return class_name.removesuffix("Env") or class_name


def _remedy(name: str, known: Mapping[str, Task]) -> str:
    """What to type instead of a name that is not known."""
    by_lower_case = {key.lower(): task.name for key, task in known.items()}
    cutoff = 0.9 if "/" in name else 0.6  # an id in another namespace may well be one's own
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=cutoff)
    close += [key for key in by_lower_case if name.lower() in key]
    if close:
        return f"Did you mean {by_lower_case[close[0]]!r}? `superdex list` shows all."
    if Path(name).is_dir():
        return f"It is a directory: `superdex play {name}` plays the policy of a run."
    if "/" in name:
        return f"An id of your own is known once its module is imported: module:{name}."
    module, dot, class_name = name.rpartition(".")
    if dot:
        return f"A class of your own is given as module:Class, as in {module}:{class_name}."
    return f"There are: {', '.join(task.name for task in all_tasks())}, and classes of your own, as module:Class."
