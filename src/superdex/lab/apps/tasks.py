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
from typing import Annotated, Any

import tyro
from gymnasium.envs.registration import EnvSpec

from superdex.lab.apps.checking import nearest
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.lookup import class_at, class_of, has, is_task, offers, registered, spec_at
from superdex.lab.gym import TASKS
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.registration import NAMESPACE

__all__ = ["CfgOption", "Task", "all_tasks", "find_task", "format_cfg", "parse_cfg", "task_of_class"]

CfgOption = Annotated[tuple[str, ...], tyro.conf.arg(metavar="FIELD=VALUE [...]", help_behavior_hint="(default: none)")]
"""The option by which a command takes configuration fields."""


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
        UserError: if there is none; the message names the nearest. Or if its configuration refuses `cfg`.
    """
    return _configured(_named(name), cfg)


def task_of_class(env_class: type[MochiEnv], cfg: Mapping[str, Any] | None = None) -> Task:
    """The task of a class, which must be found again by its name: at the top level of its module.

    Raises:
        UserError: if it is no task, or is defined within a function. Or if its configuration refuses `cfg`.
    """
    if not is_task(env_class):
        raise UserError(f"A task must be a name, or a class that derives from MochiEnv, got {env_class!r}.")
    module, name = env_class.__module__, env_class.__qualname__
    if getattr(sys.modules.get(module), name, None) is not env_class:
        raise UserError(f"{name} must be defined at the top level of its module, where it can be found again by name.")
    return _configured(Task(_short(name), f"{module}:{name}"), cfg)


def _configured(task: Task, cfg: Mapping[str, Any] | None) -> Task:
    if not cfg:
        return task
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
    except (SyntaxError, ValueError):
        return field, {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _named(name: str) -> Task:
    known: dict[str, Task] = {}
    for task in all_tasks():
        known.update(dict.fromkeys((task.name, task.task_id.partition("/")[2], task.task_id), task))
    if name in known:
        return known[name]
    module, colon, rest = name.rpartition(":")
    if colon and has(module, rest):
        class_at(name)  # raises here and now if it is none
        return Task(_short(rest), name)
    spec = registered(rest)
    if spec is not None:
        _check_registered(spec)
        return Task(spec.name, f"{module}{colon}{spec.id}")
    if module == "__main__":
        raise UserError(f"{rest} was defined in a script that does not run now; put it into a module of its own.")
    if colon:
        raise UserError(f"Module {module!r} has no {rest!r}, and registers no such id. {nearest(rest, offers(module))}")
    raise UserError(f"There is no task {name!r}. {_remedy(name, known)}")


def _check_registered(spec: EnvSpec) -> None:
    env_class = class_of(spec)
    try:
        env_class.Cfg.make(spec.kwargs)
    except (TypeError, ValueError) as error:
        raise UserError(f"{spec.id} is registered with kwargs={spec.kwargs}: {error}") from error


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
