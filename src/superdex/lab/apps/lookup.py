"""Where tasks of one's own come from: modules that are imported by name, and Gymnasium's registry.

A path is module:Class, module:id or id; see `superdex.lab.apps.tasks`.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from functools import partial
from types import ModuleType
from typing import Any, TypeGuard

import gymnasium
from gymnasium.envs.registration import EnvSpec

from superdex.lab.apps.checking import nearest
from superdex.lab.apps.errors import UserError
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.registration import NAMESPACE
from superdex.lab.gym.utils.vector import SceneVectorEnv

__all__ = ["class_at", "class_of", "has", "is_task", "offers", "registered", "spec_at"]


def spec_at(task_id: str) -> EnvSpec | None:
    """What is registered under the id; None for a module:Class."""
    module, colon, name = task_id.rpartition(":")
    if colon and has(module, name):
        return None
    return gymnasium.registry.get(name)


def has(module: str, name: str) -> bool:
    """Whether the module, which is imported, has anything of that name."""
    return hasattr(_import_module(module), name)


def registered(name: str) -> EnvSpec | None:
    """What is registered under that id, or without its version under the newest; Gymnasium's own ids do not count."""
    specs = [spec for spec in gymnasium.registry.values() if not _is_gymnasiums(spec)]
    found = [spec for spec in specs if spec.id == name] or [s for s in specs if s.id.rpartition("-v")[0] == name]
    return max(found, key=lambda spec: spec.version or 0, default=None)


def _is_gymnasiums(spec: EnvSpec) -> bool:
    where = spec.entry_point if isinstance(spec.entry_point, str) else getattr(spec.entry_point, "__module__", "")
    return where.startswith("gymnasium.")


def class_of(spec: EnvSpec) -> type[MochiEnv]:
    """The class of a registered task.

    Raises:
        UserError: if something else is registered, or it is wrapped by Gymnasium, which our batches would not be.
    """
    env_class = next(filter(is_task, map(_loaded, (spec.entry_point, spec.vector_entry_point))), None)
    if env_class is None:
        raise UserError(
            f"{spec.id} is registered, but is no task of this library: its entry point must be a class that derives"
            " from MochiEnv, or its vector entry point functools.partial(SceneVectorEnv, such a class), got"
            f" {spec.entry_point!r}."
        )
    if spec.max_episode_steps is not None or spec.additional_wrappers:
        raise UserError(
            f"{spec.id} is registered with max_episode_steps or additional_wrappers, which wrap single environments"
            " only: leave them out, and limit episodes by the configuration, as in kwargs={'steps_per_episode': 200}."
        )
    return env_class


def _loaded(entry_point: Any) -> Any:
    """What an entry point of Gymnasium's registry stands for: a task's class, or something else."""
    if isinstance(entry_point, str):
        module, _, name = entry_point.partition(":")
        entry_point = getattr(_import_module(module), name, None)
    if isinstance(entry_point, partial) and entry_point.func is SceneVectorEnv and not entry_point.keywords:
        return next(iter(entry_point.args), None)
    return entry_point


def _import_module(name: str) -> ModuleType:
    if name.endswith(".py") or os.sep in name:
        wanted = name.removesuffix(".py").strip("./").replace(os.sep, ".")
        raise UserError(f"{name} is a file; give its module, as Python imports it: {wanted}:Class.")
    here = os.getcwd()
    if not {"", here} & set(sys.path):
        sys.path.insert(0, here)  # as `python -m` does
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise UserError(
            f"Module {name!r} cannot be imported: {type(error).__name__}: {error}{_place(error)} (Modules are looked"
            " for in the working directory and on PYTHONPATH.)"
        ) from error


def _place(error: Exception) -> str:
    """Where a module raised an exception while it was imported, for a message; nothing if it was not found."""
    ours = (__file__, importlib.__file__)
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [each for each in frames if each.filename not in ours and not each.filename.startswith("<")]
    return f", in {theirs[-1].filename}, line {theirs[-1].lineno}." if theirs else ""


def class_at(path: str) -> type[MochiEnv]:
    """The class of a module:Class.

    Raises:
        UserError: if the module cannot be imported, or has no task of that name.
    """
    module_name, _, class_name = path.rpartition(":")
    env_class = getattr(_import_module(module_name), class_name, None)
    if env_class is None:
        raise UserError(f"Module {module_name!r} has no {class_name!r}. {nearest(class_name, offers(module_name))}")
    if not is_task(env_class):
        raise UserError(f"{path} is not a class that derives from MochiEnv. {nearest(class_name, offers(module_name))}")
    return env_class


def offers(module: str) -> list[str]:
    """What may follow the module's name: its classes, and ids that are neither ours nor Gymnasium's."""
    classes = [key for key, value in vars(_import_module(module)).items() if is_task(value)]
    specs = [spec for spec in gymnasium.registry.values() if not _is_gymnasiums(spec)]
    return classes + [spec.id for spec in specs if spec.namespace != NAMESPACE]


def is_task(value: Any) -> TypeGuard[type[MochiEnv]]:
    """Whether `value` is a class of environments of this library."""
    return inspect.isclass(value) and issubclass(value, MochiEnv) and value is not MochiEnv
