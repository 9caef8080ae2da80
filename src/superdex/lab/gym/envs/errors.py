"""What is raised where a task breaks the rules for tasks."""

from __future__ import annotations

from typing import Self

__all__ = ["MissingHookError", "TaskError"]


class TaskError(ValueError):
    """A task declared or returned what it must not; the message says so to the task's author."""


class MissingHookError(TaskError, NotImplementedError):
    """A task lacks what every task must define."""

    @classmethod
    def of(cls, owner: object, name: str) -> Self:
        """For a task or configuration `owner` without `name`."""
        return cls(f"{type(owner).__name__} must define {name}.")
