"""Shared memory between a vector environment and its workers.

A `SharedBuffer` has no name: nothing lies in /dev/shm that a crash could leave
behind, and the memory is gone with the last process that maps it. Space is
reserved when it is asked for, so shortage is a `SharedMemoryError` there and then (a
sparse file would kill the process at the first write it has no page for).

A batch is one buffer with one array each for actions, observations, rewards and
flags of all environments (`BatchLayout`). Each worker writes results straight
into the rows it owns, so nothing is gathered and nothing is pickled.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import reduction

import numpy as np

from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.errors import SharedMemoryError

__all__ = ["BatchLayout", "SharedBuffer", "align"]

_ALIGNMENT = 64


def align(offset: int) -> int:
    """The next cache line: processes that write side by side do not slow each other down."""
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


class SharedBuffer:
    """Anonymous shared memory, empty at first, that can be handed to a process as it is spawned."""

    _fd = -1

    def __init__(self) -> None:
        self._fd = _anonymous_file()

    def allocate(self, size: int) -> None:
        """Make the buffer at least `size` bytes long, keeping what it holds; SharedMemoryError if there is no space."""
        if size > os.fstat(self._fd).st_size:
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(self._fd, 0, size)
                else:
                    os.ftruncate(self._fd, size)
            except OSError as error:
                raise SharedMemoryError(
                    f"No space for {size} bytes of shared memory between the processes ({error.strerror}). "
                    "Use fewer or smaller environments, or give this machine or container more memory.",
                    None,
                    (),
                ) from error

    def map(self) -> mmap.mmap:
        """The whole buffer as memory; it stays valid after `close` for as long as it is referred to."""
        return mmap.mmap(self._fd, os.fstat(self._fd).st_size)

    def write(self, data: bytes) -> None:
        """Fill the buffer with `data`."""
        self.allocate(len(data))
        self.map()[: len(data)] = data

    def read(self) -> bytes:
        """All that is in it."""
        return os.pread(self._fd, os.fstat(self._fd).st_size, 0)

    def fileno(self) -> int:
        """The file it is, valid until `close`."""
        return self._fd

    def close(self) -> None:
        """Release this process's hold on the buffer; harmless when repeated."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., SharedBuffer], tuple[object]]:
        return _adopt, (reduction.DupFd(self._fd),)


def _adopt(handle: reduction.DupFd) -> SharedBuffer:  # type: ignore[valid-type]
    buffer = SharedBuffer.__new__(SharedBuffer)
    buffer._fd = handle.detach()
    return buffer


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("superdex")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


@dataclass(frozen=True)
class BatchLayout:
    """Where a batch's arrays lie in its buffer."""

    num_envs: int
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype
    action_shape: tuple[int, ...]
    action_dtype: np.dtype

    @property
    def size(self) -> int:
        """Bytes needed; never 0, which cannot be mapped."""
        return max(1, sum(align(_nbytes(shape, dtype)) for shape, dtype in self._arrays()))

    def views(self, memory: mmap.mmap, rows: slice) -> tuple[np.ndarray, StepBuffers]:
        """The rows of the actions, and of what a step returns."""
        views = []
        offset = 0
        for shape, dtype in self._arrays():
            views.append(np.ndarray(shape, dtype, buffer=memory, offset=offset)[rows])
            offset += align(_nbytes(shape, dtype))
        return views[0], StepBuffers(*views[1:])

    def _arrays(self) -> list[tuple[tuple[int, ...], np.dtype]]:
        n = self.num_envs
        return [
            ((n, *self.action_shape), self.action_dtype),
            ((n, *self.observation_shape), self.observation_dtype),
            ((n,), np.dtype(np.float64)),
            ((n,), np.dtype(np.bool_)),
            ((n,), np.dtype(np.bool_)),
        ]


def _nbytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    return math.prod(shape) * dtype.itemsize
