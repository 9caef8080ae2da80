"""What sharing a scene saves: start-up and memory of environments in one process, with it and without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from superdex.lab.apps.bench.fresh import in_fresh_process
from superdex.lab.apps.bench.settings import Announce, Settings
from superdex.lab.apps.bench.startup import Split, bytes_per_env, measure_startup

__all__ = ["SharingResult", "measure_sharing"]


@dataclass(frozen=True, kw_only=True)
class SharingResult:
    """Environments in one process, on one thread."""

    task: str
    use_shared_scenes: bool
    num_envs: int
    init_seconds: float
    memory_bytes: int | None
    bytes_per_env: float | None
    """Beyond the process itself."""


def measure_sharing(settings: Settings, announce: Announce) -> Iterator[list[SharingResult]]:
    """Measure each task with and without sharing, in fresh processes; after each, yields what there is so far."""
    results: list[SharingResult] = []
    for task in settings.tasks:
        for shared in (True, False):
            split = replace(Split(task, 0, settings.sizes.sharing), use_shared_scenes=shared)
            announce(f"sharing {'on' if shared else 'off'}: {split}")
            startup = in_fresh_process(measure_startup, split, settings.plan)
            baseline = in_fresh_process(measure_startup, split.baseline, settings.plan)
            results.append(
                SharingResult(
                    task=task.name,
                    use_shared_scenes=shared,
                    num_envs=split.num_envs,
                    init_seconds=startup.init_seconds,
                    memory_bytes=startup.memory.total if startup.memory else None,
                    bytes_per_env=bytes_per_env(split, startup, baseline),
                )
            )
            yield results
