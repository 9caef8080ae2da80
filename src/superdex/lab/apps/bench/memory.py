"""How much memory this process and its children take.

The proportional set size (PSS) counts a page that n processes share as an nth
in each, so that the PSS of processes add up. Linux only; elsewhere the answer is
None.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Memory", "memory_of_family", "parse_rollup"]

_PROC = Path("/proc")


class Memory(NamedTuple):
    """Memory of one or more processes [bytes]."""

    total: int
    """The proportional set size."""
    data: int
    """The part of it that is not backed by files. Program code is, and how much of that counts here depends on
    who else on the machine runs the same libraries; differences are therefore taken of this part."""


def memory_of_family(pid: int | None = None) -> Memory | None:
    """The memory of a process (by default this one) and all its descendants, or None if it cannot be read."""
    root = os.getpid() if pid is None else pid
    try:
        parts = [parse_rollup((_PROC / str(each) / "smaps_rollup").read_text()) for each in (root, *_descendants(root))]
    except OSError:
        return None
    return Memory(sum(part.total for part in parts), sum(part.data for part in parts))


def parse_rollup(text: str) -> Memory:
    """The memory of one process from its `smaps_rollup`."""
    kilobytes: dict[str, int] = {}
    for line in text.splitlines()[1:]:
        name, _, value = line.partition(":")
        kilobytes[name] = int(value.split()[0])
    data = kilobytes.get("Pss_Anon", kilobytes["Pss"]) + kilobytes.get("Pss_Shmem", 0)
    return Memory(1024 * kilobytes["Pss"], 1024 * data)


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue  # it has just ended
            parent = int(stat.rpartition(")")[2].split()[1])  # the command's name, in parentheses, may hold anything
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]
