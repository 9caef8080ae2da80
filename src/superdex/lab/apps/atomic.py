"""Files and directories that are either there in full or not at all, whenever the process is killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = [
    "UNFINISHED",
    "hold",
    "new_directory",
    "remove_abandoned",
    "remove_directory",
    "remove_leftovers",
    "replace_file",
    "sync",
    "umask",
]

UNFINISHED = ".unfinished-"
"""How the names of what is not whole begin."""


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A directory to fill, which gets the name `path` once the block ends and its files are on the disk.

    After an exception it is removed. A process that is killed leaves a hidden
    directory beside `path` (`remove_leftovers`). `path` itself must not exist yet.
    """
    unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=path.parent))
    try:
        yield unfinished
        for file in unfinished.iterdir():
            sync(file)
        sync(unfinished)
        unfinished.chmod(0o777 & ~umask())  # mkdtemp's own is for the owner's eyes only
        unfinished.rename(path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    sync(path.parent)


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file of another name, which then takes the place of `path`."""
    unfinished = path.with_name(f"{UNFINISHED}{os.getpid()}-{path.name}")
    try:
        with hold(unfinished):
            write(unfinished)
            sync(unfinished)
            unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync(path.parent)


def remove_directory(path: Path) -> None:
    """Remove a directory so that it is never there in part; a killed process may leave a hidden one."""
    doomed = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=path.parent))
    path.rename(doomed)  # takes the place of the empty one
    shutil.rmtree(doomed)


def remove_leftovers(directory: Path) -> None:
    """Remove what killed processes left unfinished in `directory`, if that is there.

    Files that a living process is at work on stay. Directories go: no other process may make any there meanwhile.
    """
    for path in directory.glob(f"{UNFINISHED}*"):
        shutil.rmtree(path) if path.is_dir() else remove_abandoned(path)


def hold(path: Path) -> IO[bytes]:
    """Open the file, made if it is not there, and keep `remove_abandoned` from it.

    That lasts until what is returned is closed, or this process dies.
    """
    stream = path.open("ab")
    with suppress(OSError):  # a file system without locks: nobody will take the file for abandoned
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return stream


def remove_abandoned(path: Path) -> None:
    """Remove a file unless a living process holds it, or that cannot be told."""
    with suppress(OSError), path.open("r+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


def sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def umask() -> int:
    """The permissions that new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
