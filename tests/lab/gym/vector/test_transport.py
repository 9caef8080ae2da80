"""Shared memory: its arrays, its fallback, its shortage."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

from superdex.lab.gym.utils.vector import SharedMemoryError
from superdex.lab.gym.vector.transport import BatchLayout, SharedBuffer


@pytest.mark.parametrize("missing", [(), ("memfd_create", "posix_fallocate")])
def test_a_buffer_keeps_what_it_holds_when_it_grows(missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in missing:
        monkeypatch.delattr(os, name)
    buffer = SharedBuffer()
    buffer.write(b"kept")
    small = buffer.map()
    buffer.allocate(10_000)
    large = buffer.map()
    assert len(large) == 10_000
    small[:4] = b"seen"
    buffer.close()
    buffer.close()
    assert large[:4] == b"seen"


def test_shortage_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    message = r"No space for 100 bytes of shared memory .*No space left on device.* Use fewer or smaller"
    with pytest.raises(SharedMemoryError, match=message) as caught:
        SharedBuffer().allocate(100)
    assert caught.value.worker_index is None


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_a_layout_gives_each_process_its_rows(shape: tuple[int, ...]) -> None:
    layout = BatchLayout(6, shape, np.dtype(np.uint8), (5,), np.dtype(np.float32))
    buffer = SharedBuffer()
    buffer.allocate(layout.size)
    actions, out = layout.views(buffer.map(), slice(0, 6))
    for rows in (slice(0, 2), slice(2, 4), slice(4, 6)):
        own_actions, own = layout.views(buffer.map(), rows)
        own_actions[:] = rows.start
        own.observation[...] = rows.start
        own.reward[:] = rows.start
        own.terminated[:] = True
    assert actions[:, 0].tolist() == out.reward.tolist() == [0, 0, 2, 2, 4, 4]
    assert out.observation.shape == (6, *shape)
    assert (out.observation.reshape(6, -1) == np.array([0, 0, 2, 2, 4, 4])[:, None]).all()
    assert out.terminated.all()
    assert not out.truncated.any()
