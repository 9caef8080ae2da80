"""Models from files, compiled once per process.

    model = load_model("robot.xml")                       # read and compiled
    model = load_model("robot.xml")                       # a copy of the compiled model
    model = load_model("robot.xml", set_gravity, (0, 0, 0))   # compiled again: other edits

A *prefab* is an MJCF file plus edits: `edit(spec, *args)` changes the parsed
`mujoco.MjSpec` before it is compiled. Within a process each file is read and
compiled once per distinct `(edit, args)`, however many environments ask for it.
The result is a copy, so that changing a returned model changes nobody else's.
A file that changed on disk (or any file that it includes) is read again.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path

import mujoco

__all__ = ["FileCacheStats", "clear_file_cache", "enable_file_cache", "file_cache_stats", "load_model"]

Edit = Callable[..., None]
Fingerprint = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class FileCacheStats:
    """What the file cache of this process has done since it was last cleared."""

    hits: int = 0
    """Models served without reading a file."""
    misses: int = 0
    """Models read and compiled."""


@dataclass(frozen=True, slots=True)
class _Entry:
    fingerprint: Fingerprint
    model: mujoco.MjModel


class _FileCache:
    """Compiled models by file and edits, checked against the files' stamps."""

    def __init__(self) -> None:
        self.enabled = True
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        with self._lock:
            self._entries: dict[Hashable, _Entry] = {}
            self.stats = FileCacheStats()

    def load(self, path: Path, edit: Edit | None, args: tuple[Hashable, ...]) -> mujoco.MjModel:
        if not self.enabled:
            return _compile(path, edit, args)
        with self._lock:
            key = (path, edit, args)
            entry = self._entries.get(key)
            if entry is not None and entry.fingerprint == _stamps(name for name, *_ in entry.fingerprint):
                self.stats = FileCacheStats(self.stats.hits + 1, self.stats.misses)
            else:
                # stamped before it is read: a file that changes meanwhile is read again next time
                fingerprint = _stamps(_files(str(path)))
                entry = _Entry(fingerprint, _compile(path, edit, args))
                self._entries[key] = entry
                self.stats = FileCacheStats(self.stats.hits, self.stats.misses + 1)
        return copy.copy(entry.model)


def _compile(path: Path, edit: Edit | None, args: tuple[Hashable, ...]) -> mujoco.MjModel:
    spec = mujoco.MjSpec.from_file(str(path))
    if edit is not None:
        edit(spec, *args)
    return spec.compile()


def _files(path: str) -> set[str]:
    """The model file and all that it includes."""
    try:
        return {path, *mujoco.mju_getXMLDependencies(path)}
    except mujoco.FatalError:
        return {path}  # compiling it will say what is wrong


def _stamps(names: Iterable[str]) -> Fingerprint:
    """(path, modification time [ns], size [bytes]) of each file; -1 for one that is gone."""
    stamps = []
    for name in sorted(names):
        try:
            status = os.stat(name)
        except OSError:
            stamps.append((name, -1, -1))
        else:
            stamps.append((name, status.st_mtime_ns, status.st_size))
    return tuple(stamps)


_cache = _FileCache()


def load_model(path: str | os.PathLike[str], edit: Edit | None = None, *args: Hashable) -> mujoco.MjModel:
    """Compile an MJCF file, or return a copy of the model that this process compiled from it before.

    Args:
        path: the MJCF file.
        edit: called as `edit(spec, *args)` before compilation. It must depend on
            nothing but its arguments, and should be a module-level function: the
            cache tells edits apart by the function object and `args`.
        *args: hashable arguments of `edit`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if MuJoCo cannot parse or compile it.
    """
    path = Path(path).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {str(path)!r}. Give the path of an MJCF (.xml) file.")
    return _cache.load(path, edit, args)


def enable_file_cache(enabled: bool) -> None:
    """Switch this process's file cache on (the default) or off; its entries are kept."""
    _cache.enabled = bool(enabled)


def clear_file_cache() -> None:
    """Forget every compiled model and set the counters to zero."""
    _cache.clear()


def file_cache_stats() -> FileCacheStats:
    """The counters of this process's file cache."""
    return _cache.stats
