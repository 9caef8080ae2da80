"""What the sections are told to measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from superdex.lab.apps.bench.measuring import Plan
from superdex.lab.apps.tasks import Task

__all__ = ["QUICK_SIZES", "Announce", "Settings", "Sizes"]

Announce = Callable[[str], None]
"""Told what is being measured, as it begins."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Numbers of environments that are not part of the sweep."""

    gymnasium_sync: int = 100
    """In the `SyncVectorEnv` that the largest split is compared with."""
    gymnasium_async: int = 8
    """In the `AsyncVectorEnv` that the largest split is compared with."""
    few: int = 16
    """On one thread, against a `SyncVectorEnv` of the same."""
    sharing: int = 500
    """In one process, with and without a shared scene."""
    growth: tuple[int, int] = (1_000, 50_000)
    """Between which the time per environment step should not grow."""
    many: int = 10_000
    """Started in `many_workers` workers."""
    many_workers: int = 2


QUICK_SIZES = Sizes(gymnasium_sync=8, gymnasium_async=2, few=4, sharing=20, growth=(20, 200), many=100)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    tasks: tuple[Task, ...]
    num_workers: tuple[int, ...]
    num_envs_per_worker: tuple[int, ...]
    num_threads: tuple[int, ...]
    """Native threads of environments in this process."""
    plan: Plan
    sizes: Sizes = Sizes()
