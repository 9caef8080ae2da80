"""The connection to Ray, which is shared by all who need it in this process.

A connection that is there already is used, and stays. One that `connect` had to
make is shut down when the last who called `connect` has called `disconnect`.
"""

from __future__ import annotations

import os
import socket
import threading

import ray

__all__ = ["connect", "disconnect"]

_REACH_SECONDS = 10.0


class _Shared:
    """How many users the connection has, and whether it is ours to shut down."""

    lock = threading.Lock()
    users = 0
    own: str | None = None
    """The id of the connection that `connect` made; someone else may have replaced it since."""


def connect(address: str | None) -> None:
    """Be connected to Ray.

    Args:
        address: "auto" or "host:port" of a cluster that this machine is a node of; None for the one
            of the environment variable RAY_ADDRESS, else the one that runs on this machine, else a
            new one of this machine alone. Not used if there is a connection already.

    Raises:
        ValueError: if it is the address of a Ray Client server.
        ConnectionError: if there is no cluster at this address.
    """
    if address is not None and address.startswith("ray://"):
        raise ValueError(
            f"address must be that of a cluster which this machine is a node of, got {address!r}, which is a Ray Client"
            " server. Run this on one of the cluster's nodes, with address='auto'."
        )
    with _Shared.lock:
        if not ray.is_initialized():
            _require_listener(address or os.environ.get("RAY_ADDRESS", ""))
            ray.init(address=address)
            _Shared.own, _Shared.users = _connection_id(), 0
        _Shared.users += 1


def disconnect() -> None:
    """Let go of the connection, once for each `connect`."""
    with _Shared.lock:
        _Shared.users -= 1
        if _Shared.users == 0 and ray.is_initialized() and _connection_id() == _Shared.own:
            ray.shutdown()
            _Shared.own = None


def _require_listener(address: str) -> None:
    """Raise unless someone listens at a "host:port", for which Ray itself would look for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_SECONDS).close()
        except OSError as error:
            raise ConnectionError(
                f"There is no Ray cluster at {address} ({error}). `ray start --head` has printed its address; perhaps a"
                " firewall is in the way."
            ) from error


def _connection_id() -> str:
    return ray.get_runtime_context().get_worker_id()
