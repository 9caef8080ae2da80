"""Messages between the caller and a worker, over a connected socket.

A message is its length (8 bytes) and its bytes. The caller's end never waits: it
sends and receives what it can at once, and goes on when the poll says so. Hence
no worker can hold the caller up, not even one that was stopped or killed in the
middle of a message. A worker's end waits.
"""

from __future__ import annotations

import os
import select
import struct
import time
from multiprocessing.connection import Connection

__all__ = ["Channel"]

_LENGTH = struct.Struct("<Q")
_CHUNK = 1 << 16


class Channel:
    """One end of a connection between two processes."""

    def __init__(self, connection: Connection, *, blocking: bool) -> None:
        self._connection = connection
        self._fd = connection.fileno()
        os.set_blocking(self._fd, blocking)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._incoming = bytearray()
        self._outgoing = memoryview(b"")

    def fileno(self) -> int:
        """For a poll."""
        return self._fd

    def send(self, message: bytes) -> bool:
        """Send `message` after what is still to be sent; see `flush`."""
        message = _LENGTH.pack(len(message)) + message
        self._outgoing = memoryview(bytes(self._outgoing) + message if self._outgoing else message)
        return self.flush()

    def flush(self) -> bool:
        """Send what can be sent without waiting (if not `blocking`); whether that was all.

        OSError if the other end is closed.
        """
        while self._outgoing:
            try:
                sent = os.write(self._fd, self._outgoing)
            except BlockingIOError:
                return False
            self._outgoing = self._outgoing[sent:]
        return True

    def receive(self) -> bytes | None:
        """The next message, or (if not `blocking`) None as long as it has not come in full.

        EOFError or OSError if the other end is closed.
        """
        while True:
            message = self._take_message()
            if message is not None:
                return message
            try:
                chunk = os.read(self._fd, _CHUNK)
            except BlockingIOError:
                return None
            if not chunk:
                raise EOFError
            self._incoming += chunk

    def linger(self, seconds: float) -> None:
        """Wait up to `seconds` for something to receive without going to sleep, from which waking up takes long."""
        until = time.perf_counter() + seconds
        while not self._poll.poll(0) and time.perf_counter() < until:
            os.sched_yield()

    def _take_message(self) -> bytes | None:
        start = _LENGTH.size
        if len(self._incoming) < start:
            return None
        end = start + _LENGTH.unpack_from(self._incoming)[0]
        if len(self._incoming) < end:
            return None
        with memoryview(self._incoming) as view:
            message = bytes(view[start:end])
        del self._incoming[:end]
        return message

    def close(self) -> None:
        """Close this end; harmless when repeated."""
        self._connection.close()
