"""What is raised where a task breaks the rules for tasks."""

from __future__ import annotations

__all__ = ["TaskError"]


class TaskError(ValueError):
    """A task declared or returned what it must not; the message says so to the task's author."""
