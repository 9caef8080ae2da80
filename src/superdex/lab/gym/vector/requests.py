"""What a caller asks of a worker, and what the worker replies, wherever it runs.

The caller sends one request at a time and gets exactly one reply:

| request | reply |
|---|---|
| (start) | `Description` of the environments, once they are made |
| `RESET` (seeds, pickled options, pending) | infos |
| `STEP` | infos |
| `CALL` (pickled name, args and kwargs; indices or None) | a list of results |
| `SET` (name, values), of the first environments or all | how many took theirs, and a `RemoteError` if one did not |
| `KEYS` | what each environment's state must fit |
| `CAPTURE` | the states of the environments, and which are pending |
| `RESTORE` state | `OK` |
| `CLOSE` | `OK`, and the environments are closed |

Any of them may be answered by `ERROR` with a `RemoteError` instead, and the worker goes
on waiting: what an error means is for the caller to decide. Environments have
their indices among all, in requests as well as in replies.

`superdex.lab.gym.vector.host` answers what is answered in the same way everywhere. How
actions and results travel is left to those that host it: a process
(`superdex.lab.gym.vector.worker`) and an actor (`superdex.lab.gym.distributed.actor`), which
each add a request of their own.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from superdex.lab.gym.vector.backend import InnerBackend
from superdex.lab.gym.vector.wire import dumps

__all__ = [
    "ATTACH",
    "CALL",
    "CAPTURE",
    "CLOSE",
    "COLLECT",
    "ERROR",
    "KEYS",
    "OK",
    "RESET",
    "RESTORE",
    "SET",
    "STEP",
    "Description",
    "call_request",
    "reset_request",
    "set_request",
]

ATTACH, CALL, CAPTURE, CLOSE, COLLECT, ERROR, KEYS, OK, RESET, RESTORE, SET, STEP = (bytes([i]) for i in range(12))
"""The first byte of every message."""


@dataclass(frozen=True)
class Description:
    """What a worker says of its environments."""

    spaces: tuple[Box, Box]
    metadata: dict[str, Any]
    render_mode: str | None
    inner_backends: tuple[InnerBackend, ...]


def reset_request(
    seeds: Sequence[int | None] | None, options: bytes, pending: NDArray[np.bool_] | None = None
) -> bytes:
    """A RESET; the environments of the mask `pending` count as not yet reset since their episodes ended."""
    return RESET + pickle.dumps((seeds, options, pending))


def set_request(name: str, values: Sequence[Any]) -> bytes:
    """A SET of the attribute `name` of a worker's first environments, or all, to one value for each."""
    return SET + dumps((name, values), f"A value for {name!r}")


def call_request(member: bytes, environments: list[int] | None) -> bytes:
    """A CALL of the pickled (name, args, kwargs) in some environments of the worker, or in all of them."""
    return CALL + pickle.dumps((member, environments))
