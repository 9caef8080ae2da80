"""What a check says: how a task did, in one line, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Outcome", "Status", "Verdict", "failed", "passed", "skipped", "warned"]

Status = Literal["passed", "warning", "failed", "skipped"]


@dataclass(frozen=True)
class Outcome:
    """How a task did in a check."""

    status: Status
    message: str
    """What was seen, in one line."""
    remedy: str = ""
    """What to do in the task; empty where nothing is amiss."""


@dataclass(frozen=True)
class Verdict(Outcome):
    """An outcome, and the check that it is of."""

    check: str = ""

    def __str__(self) -> str:
        line = f"{self.check}: {self.status}: {self.message}"
        return f"{line}\n    {self.remedy}" if self.remedy else line


def passed(message: str) -> Outcome:
    """All is well."""
    return Outcome("passed", message)


def warned(message: str, remedy: str) -> Outcome:
    """No promise is broken, but the author should know."""
    return Outcome("warning", message, remedy)


def failed(message: str, remedy: str) -> Outcome:
    """A promise is broken."""
    return Outcome("failed", message, remedy)


def skipped(message: str) -> Outcome:
    """Nothing can be said, and why."""
    return Outcome("skipped", message)
