"""Where in a task an exception comes from."""

from __future__ import annotations

import inspect
import linecache
import traceback
from dataclasses import dataclass
from pathlib import PurePath
from typing import Self

from superdex.lab.gym.envs import MochiEnv

__all__ = ["HOOKS", "Fault", "task_classes"]

HOOKS = (
    *("_randomize", "_reset", "_apply_action", "_make_observation", "_make_step_info", "_compute_reward_terms"),
    *("_total_reward", "_check_stop_criteria"),
)
"""What is called again and again while a task runs."""

_PARTS = frozenset((*HOOKS, "__init__", "_build_model", "_create_scene", "_action_parts", "_observation_parts"))
_REFUSING = ("superdex.lab.gym.envs.spaces", "superdex.lab.gym.envs.task_batch")
_DERIVED = ("is a derived field that is not tracked", "derived fields are computed after it", "cannot give")


def task_classes(env_class: type[MochiEnv]) -> list[type]:
    """The classes that make up a task: it and its bases, as far as they are not the library's own."""
    own = set(MochiEnv.__mro__)
    return [kind for kind in env_class.__mro__ if kind not in own]


@dataclass(frozen=True)
class Fault:
    """An exception, and the place in the task that it was raised from."""

    error: Exception
    part: str
    """The task's method: a hook, `__init__`, `_build_model`, ...; empty if it was none of these."""
    line: str
    """File, number and text of the task's last line in the traceback, or empty."""
    raised_by: str
    """The module that raised."""

    @classmethod
    def of(cls, error: Exception, env_class: type[MochiEnv]) -> Self:
        """Read the traceback of an exception that a task of that class raised."""
        files = {inspect.getsourcefile(kind) for kind in task_classes(env_class) if _has_source(kind)}
        part = line = module = ""
        for frame, number in traceback.walk_tb(error.__traceback__):
            code, module = frame.f_code, frame.f_globals.get("__name__", "")
            inside = isinstance(frame.f_locals.get("self"), MochiEnv)
            if inside and code.co_name in _PARTS and (code.co_filename in files or code.co_name in HOOKS):
                part = code.co_name
            if code.co_filename in files:
                text = linecache.getline(code.co_filename, number).strip()
                line = f"{PurePath(code.co_filename).name}:{number}: {text}"
        return cls(error, part, line, module)

    @property
    def is_of_derived_field(self) -> bool:
        """Whether a derived field was read that is not declared or cannot be had."""
        return any(text in str(self.error) for text in _DERIVED)

    @property
    def is_of_results(self) -> bool:
        """Whether what a hook returned, or declared, was refused."""
        return not self.part and self.raised_by in _REFUSING

    @property
    def cause(self) -> str:
        """The exception in one line."""
        text = " ".join(str(self.error).split())
        return f"{type(self.error).__name__}: {text}" if text else type(self.error).__name__

    def __str__(self) -> str:
        place = f" in {self.part}" if self.part else ""
        return f"raises{place} {self.cause}" + (f" ({self.line})" if self.line else "")


def _has_source(kind: type) -> bool:
    try:
        return inspect.getsourcefile(kind) is not None
    except TypeError:  # of a module that is not a file
        return False
