"""The machine and its libraries: what figures were measured on, and policies trained."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["machine_facts", "num_usable_cpus"]

_LIBRARIES = ("superdex-gym", "mujoco", "gymnasium", "numpy")


def machine_facts(*libraries: str) -> dict[str, Any]:
    """Processor, memory and versions, and nothing that tells one machine from another of its kind.

    Args:
        *libraries: more distributions whose versions matter; that of one that is not installed is None.
    """
    return {
        "cpu": _cpu_model(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "usable_logical_cpus": num_usable_cpus(),
        "physical_cores": _num_physical_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in (*_LIBRARIES, *libraries)},
    }


def num_usable_cpus() -> int:
    """Logical CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None  # as of this library itself, run from a source tree


def _cpu_blocks() -> list[dict[str, str]]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return []
    blocks = []
    for block in text.strip().split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        blocks.append({key.strip(): value.strip() for key, _, value in pairs})
    return blocks


def _cpu_model() -> str:
    names = {block["model name"] for block in _cpu_blocks() if "model name" in block}
    return ", ".join(sorted(names)) or platform.processor() or "unknown"


def _num_physical_cores() -> int | None:
    cores = {(block.get("physical id"), block.get("core id")) for block in _cpu_blocks() if "core id" in block}
    return len(cores) or None
