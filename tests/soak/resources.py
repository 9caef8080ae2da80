"""What this process holds of the system, and its children with it."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Resources", "memory", "settle"]

_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class Resources:
    """A count of each kind of thing that can leak."""

    held: Counter[str]

    @classmethod
    def now(cls) -> Resources:
        """What is held at this moment."""
        gc.collect()
        held: Counter[str] = Counter()
        held.update(f"descriptor of {target}" for target in _descriptors())
        held.update(f"thread {name}" for name in _threads())
        held.update(f"process {name}" for name in _children(os.getpid()).values())
        held.update(f"/dev/shm/{name}" for name in os.listdir("/dev/shm"))
        return cls(held)

    def leaked(self) -> list[str]:
        """What is held now and was not then; what goes away by itself within seconds does not count.

        /dev/shm is the machine's: what other programs keep there for a moment goes away, too.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (more := Resources.now().held - self.held) and time.monotonic() < deadline:
            time.sleep(0.1)
        return sorted(more.elements())


def memory() -> int:
    """The memory of this process and all its children [bytes], each page shared out among those that use it (PSS).

    Without pages of files (libraries): their share depends on what other programs the machine runs.
    """
    return sum(_memory_of(pid) for pid in (os.getpid(), *_children(os.getpid())))


def settle() -> None:
    """Give back what is free, so that `memory` tells what is in use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _memory_of(pid: int) -> int:
    fields = dict(re.findall(r"^(\w+): +(\d+) kB$", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE))
    return 1024 * (int(fields["Pss_Anon"]) + int(fields["Pss_Shmem"]))


def _descriptors() -> list[str]:
    targets = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            targets.append(re.sub(r"\[\d+\]|\d{2,}", "", os.readlink(f"/proc/self/fd/{fd}")))
        except FileNotFoundError:  # the directory itself
            continue
    return targets


def _threads() -> list[str]:
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            names.append(Path(f"/proc/self/task/{task}/comm").read_text().strip())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return names


def _children(parent: int) -> dict[int, str]:
    """Processes, zombies among them, by id."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            name, _, rest = stat.rpartition(")")
            state, ppid = rest.split()[:2]
            if int(ppid) == parent:
                children[int(entry)] = name.partition("(")[2] + (" (zombie)" if state == "Z" else "")
    return children
