"""From what was asked for to a run's configuration: that of a new run, or of a resumed one.

Settings are given by name, as the command has them as flags: those of the recipe (`Recipe`), of what steps
the environments (`Stepping`, where `ray` is True, the address of a cluster, or False for none), and
`seed`, `checkpoint_every` and `num_learning_threads`. What is None was not asked for. Values may be NumPy's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from superdex.lab.apps.checking import require_known, whole
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tasks import Task, find_task
from superdex.lab.apps.train.config import Stepping, TrainConfig
from superdex.lab.apps.train.recipe import Recipe, plain_settings
from superdex.lab.apps.train.recipes import recipe_for

__all__ = ["new_config", "resumed_config", "stepping_changes"]

_CHECKPOINTS_PER_RUN = 20
_RECIPE = tuple(each.name for each in fields(Recipe))
_NUMBERS = ("num_workers", "num_threads", "num_threads_per_worker")
_STEPPING = (*_NUMBERS, "ray")
_OTHERS = ("seed", "checkpoint_every", "num_learning_threads")


def new_config(task: Task, settings: Mapping[str, Any]) -> TrainConfig:
    """The configuration of a new run: the task's recipe, but for the `settings`.

    Raises:
        UserError: if a setting is unknown or impossible.
    """
    given = _given(settings)
    recipe = recipe_for(task).with_settings(_among(_RECIPE, given))
    others = {"seed": 0, "checkpoint_every": max(1, recipe.total_steps // _CHECKPOINTS_PER_RUN)}
    return TrainConfig(
        task_id=task.task_id,
        cfg=_plain_cfg(task),
        recipe=recipe,
        stepping=Stepping(**stepping_changes(given)),
        **{**others, **_among(_OTHERS, given)},
    )


def resumed_config(
    config: TrainConfig, settings: Mapping[str, Any], where: str, *, steps: int, finished: bool
) -> TrainConfig:
    """The configuration of a run that is resumed: what steps it may change, and `total_steps`.

    Args:
        config: of the run so far.
        settings: may also have `cfg`, the changed fields of the task's configuration.
        where: the run, for messages.
        steps: control steps that it has come to.
        finished: whether its summary was made; if not, a run that came to its goal may still be finished.

    Raises:
        UserError: if a setting is unknown, or contradicts the run's, or there is nothing left to do.
    """
    given = _given(settings, "cfg")
    if "cfg" in given:
        given["cfg"] = _plain_cfg(find_task(config.task_id, given["cfg"]))
    stepping = stepping_changes(given)
    kept = {name: value for name, value in given.items() if name not in ("total_steps", *_STEPPING)}
    contradictions = config.contradictions(kept)
    if contradictions:
        raise UserError(f"A resumed run keeps its settings: in {where}, {'; '.join(contradictions)}.")
    continued = config.continued(total_steps=given.get("total_steps"), stepping=stepping)
    goal = continued.recipe.total_steps
    if goal <= steps and (finished or "total_steps" in given):
        raise UserError(
            f"The run in {where} has come to {steps:,} steps; to continue it, --total_steps must be larger, got"
            f" {goal:,}."
        )
    return continued


def stepping_changes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Stepping` that were given, or follow from those."""
    changes = _among(_NUMBERS, settings)
    ray, num_workers = settings.get("ray"), settings.get("num_workers")
    if "num_threads_per_worker" not in changes and (changes or ray is False):
        changes["num_threads_per_worker"] = 0  # a resumed run's were the share of other workers
    if ray is False or (ray is None and num_workers == 0):
        return changes | {"ray": False, "ray_address": None}
    if ray is None:
        return changes
    if ray is not True and not isinstance(ray, str):
        raise UserError(f"ray must be True, the address of a cluster, or False, got {ray!r}.")
    if num_workers == 0:
        raise UserError("--ray steps in at least one worker, got --num_workers 0.")
    return changes | {"ray": True, "ray_address": None if ray is True else ray}


def _given(settings: Mapping[str, Any], *more: str) -> dict[str, Any]:
    """Those of the settings that were asked for, as plain data."""
    require_known("setting", settings, (*_RECIPE, *_STEPPING, *_OTHERS, *more))
    given = {name: value for name, value in settings.items() if value is not None}
    plain = plain_settings(_among(_RECIPE, given))
    plain |= {name: whole(name, value) for name, value in _among((*_NUMBERS, *_OTHERS), given).items()}
    if isinstance(given.get("ray"), np.generic):
        plain["ray"] = given["ray"].item()
    return given | plain


def _plain_cfg(task: Task) -> dict[str, Any]:
    """The changed fields of the task's configuration, as that holds them: plain data."""
    made = task.env_class.Cfg.make(task.fields)
    return {name: getattr(made, name) for name, _ in task.cfg}


def _among(names: tuple[str, ...], settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[name] for name in names if name in settings}
