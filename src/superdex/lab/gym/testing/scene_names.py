"""Check that a scene's name tells apart the configurations that give different models, and no others.

Every configuration field is varied, one at a time: from the configuration given,
and from those that have one switch of `uid_fields` the other way, since a field
may matter in one position only. Two environments of one scene name must have the
same model, to the bit.
"""

from __future__ import annotations

import copy
import enum
import types
import typing
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import islice
from typing import Any

import mujoco

from superdex.lab.gym.envs import MochiEnvCfg, TaskCfg
from superdex.lab.gym.testing.models import model_differences
from superdex.lab.gym.testing.outcomes import Outcome, failed, passed, skipped, warned
from superdex.lab.gym.testing.subject import Subject

__all__ = ["candidates", "check_scene_name"]

_LEFT_OUT = frozenset(
    (
        *("simulation_frequency", "use_shared_scenes", "num_worker_threads"),
        *("render_mode", "render_size", "render_quality", "render_camera"),
    )
)
"""The first is in every scene's name and sets its time step; the others say how to run and show it."""
_SHOWN = 6
_TRIES, _MORE_TRIES = 3, 1
"""Values to try for a field in the given configuration, and in each of the others: every one compiles a model."""


def check_scene_name(subject: Subject) -> Outcome:
    """A field that changes the model is in the scene's name, and one in the name changes the model."""
    try:
        shares = _shares(subject)
    except Exception:
        return skipped("the environment cannot be made; see runs")
    if subject.cfg.use_shared_scenes and not shares:
        return warned(
            "use_shared_scenes is set, but the scene was not made through _load_scene(), so nothing is shared",
            "Override _build_model only, or make the scene by self._load_scene(name, builder).",
        )
    builds = _Builds(subject)
    names = [field.name for field in fields(subject.cfg) if field.name not in _LEFT_OUT]
    missing: dict[str, list[str]] = {}
    idle, unknown = [], []
    for name in names:
        different, matters, tried = _vary(subject, builds, name)
        if different:
            missing[name] = different
        elif not tried:
            unknown.append(name)
        elif name in subject.env_class.uid_fields and not matters:
            idle.append(name)
    if missing:
        changes = ", and ".join(f"{name} changes the model ({_shown(which)})" for name, which in missing.items())
        return failed(
            f"{changes}, but not the scene's name",
            f"Add {', '.join(map(repr, missing))} to uid_fields, so that environments that differ in it do not share"
            " a scene.",
        )
    if idle:
        return warned(
            f"{', '.join(idle)} is in the scene's name, but was not seen to change the model",
            "Take it out of uid_fields, so that environments that differ in it share a scene.",
        )
    left = [name for name in unknown if name not in MochiEnvCfg.__dataclass_fields__]
    note = f"; not varied, for want of another valid value: {', '.join(left)}" if left else ""
    return passed(f"{len(names) - len(unknown)} fields varied, no difference in models of one scene name{note}")


def candidates(value: Any, kind: Any) -> Iterator[Any]:
    """Other values for a configuration field, likely ones first.

    Args:
        value: the present one.
        kind: the field's type.
    """
    for option in typing.get_args(kind) if _is_union(kind) else (kind,):
        if typing.get_origin(option) is typing.Literal:
            yield from (each for each in typing.get_args(option) if each != value)
        elif isinstance(option, type) and issubclass(option, enum.Enum):
            yield from (each for each in option if each != value)
        elif value is None and option is not type(None):
            yield from _invented(option)
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (each for each in (value * 2, value + 1, value / 2, value - 1) if each != value)
        if isinstance(value, int):
            yield from (each for each in (value // 2, 1, 10) if each != value)
    elif isinstance(value, tuple):
        choices = [list(candidates(item, type(item))) for item in value]
        if any(choices):
            yield tuple(choice[0] if choice else item for choice, item in zip(choices, value, strict=True))
        for index, choice in enumerate(choices):
            yield from ((*value[:index], other, *value[index + 1 :]) for other in choice)


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (types.UnionType, typing.Union)


def _invented(kind: Any) -> Iterator[Any]:
    """Values of a type, out of nothing."""
    if kind is bool:
        yield True
    elif kind in (int, float):
        yield kind(1)
        yield kind(10)
    elif typing.get_origin(kind) is tuple:
        parts = [part for part in typing.get_args(kind) if part is not ...]
        for number in (1, 100):
            if all(part in (int, float) for part in parts):
                yield tuple(part(number) for part in parts)


class _Builds:
    """Scene name and model of configurations, each built once, without sharing."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._built: dict[str, tuple[str, mujoco.MjModel] | None] = {}

    def get(self, cfg: TaskCfg) -> tuple[str, mujoco.MjModel] | None:
        """None if the task refuses the configuration."""
        key = repr(cfg)
        if key not in self._built:
            try:
                env = self._subject.env_class(replace(cfg, use_shared_scenes=False))
                # frames' sizes and more may be set on the model after it was made
                self._built[key] = env.scene.name, copy.copy(env.scene.model)
                env.close()
            except Exception:
                self._built[key] = None
        return self._built[key]

    def varied(self, cfg: TaskCfg, name: str, value: Any) -> tuple[str, mujoco.MjModel] | None:
        """`get` for the configuration with another value of a field, or None if it refuses the value."""
        try:
            return self.get(replace(cfg, **{name: value}))
        except (TypeError, ValueError):
            return None


def _vary(subject: Subject, builds: _Builds, name: str) -> tuple[list[str], bool, bool]:
    """Model fields that differ between scenes of one name, whether the field changes any, and whether it was varied."""
    matters = tried = False
    kind = typing.get_type_hints(type(subject.cfg))[name]
    for base in _bases(subject, name):
        built = builds.get(base)
        if built is None:
            continue
        values = (*subject.try_values.get(name, ()), *candidates(getattr(base, name), kind))
        others = filter(None, (builds.varied(base, name, value) for value in values))
        for other in islice(others, _TRIES if base is subject.cfg else _MORE_TRIES):
            tried = True
            different = model_differences(built[1], other[1])
            if different and other[0] == built[0]:
                return different, True, True
            if different:
                matters = True
                break
    return [], matters, tried


def _bases(subject: Subject, name: str) -> Iterator[TaskCfg]:
    """Configurations to vary: the given one, and those with one switch of the scene's name turned."""
    yield subject.cfg
    for field in subject.env_class.uid_fields:
        value = getattr(subject.cfg, field)
        turned = subject.varied(**{field: not value}) if field != name and isinstance(value, bool) else None
        if turned is not None:
            yield turned


def _shares(subject: Subject) -> bool:
    return subject.make().shares_scene


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
