"""The connection to Ray, which is shared by all who need it in this process.

A connection that is there already is used, and stays. One that `connect` had to
make is shut down when the last who called `connect` has called `disconnect`.

Anyone may call `ray.shutdown()`, and a later `connect` makes another connection.
So each user keeps the `Connection` that it was given, which tells whether it is
still there, and whose end never is the end of another.
"""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass

import ray
from ray.util.client import ray as ray_client

__all__ = ["Connection", "connect", "disconnect"]

_REACH_SECONDS = 10.0


@dataclass(frozen=True)
class Connection:
    """Which connection it is: no two have all of this in common."""

    process: int
    """Its id; a forked copy of the process has no connection."""
    node_id: str
    job_id: str
    """Ray counts jobs in each cluster, so that it alone says little."""

    def is_current(self) -> bool:
        """Whether this process is still connected by it."""
        return self.process == os.getpid() and ray.is_initialized() and _current() == self


class _Shared:
    """How many users the connection has, and whether it is ours to shut down."""

    # Reentrant: the garbage collector may run inside ray.init or ray.shutdown, in the thread that has the lock, and
    # there find a vector environment to finalize, which disconnects.
    lock = threading.RLock()
    connection: Connection | None = None
    users = 0
    """Of `connection`; those of its predecessors do not count."""
    own = False
    """Whether `connect` made it."""


def connect(address: str | None) -> Connection:
    """Be connected to Ray, until `disconnect` is called with what this returns.

    Args:
        address: "auto" or "host:port" of a cluster that this machine is a node of; None for the one
            of the environment variable RAY_ADDRESS, else the one that runs on this machine, else a
            new one of this machine alone. Not used if there is a connection already.

    Raises:
        ValueError: if it is the address of a Ray Client server, or there is a connection to one.
        ConnectionError: if there is no cluster at this address.
    """
    with _Shared.lock:
        _Shared.users += 1  # first of all, so that a finalizer (see above) does not shut down what is to be used
        try:
            made = not ray.is_initialized()
            if made and address in (None, "auto"):  # as Ray does
                address = os.environ.get("RAY_ADDRESS") or address
            _refuse_client(address)
            if made:
                _require_listener(address or "")
                ray.init(address=address)
            connection = _current()
        except BaseException:
            _let_go()
            raise
        if connection != _Shared.connection:
            _Shared.connection, _Shared.users, _Shared.own = connection, 1, made
        return connection


def disconnect(connection: Connection) -> None:
    """Let go of the connection, once for each `connect`; of one that is no more there is nothing to let go."""
    if connection.process != os.getpid():
        return  # before the lock, which a thread may have held that the fork did not copy
    with _Shared.lock:
        if connection == _Shared.connection:
            _let_go()


def _let_go() -> None:
    _Shared.users -= 1
    connection = _Shared.connection
    if _Shared.users == 0 and _Shared.own and connection is not None and connection.is_current():
        _Shared.connection = None
        ray.shutdown()


def _refuse_client(address: str | None) -> None:
    advice = "Run this on one of the cluster's nodes, with address='auto'."
    if address is not None and "://" in address:
        raise ValueError(
            "address (or RAY_ADDRESS) must be that of a cluster which this machine is a node of, got"
            f" {address!r}, which is a Ray Client server. {advice}"
        )
    if ray_client.is_connected():
        raise ValueError(
            "This process must be connected to a cluster which this machine is a node of, but it is connected to a Ray"
            f" Client server, through which actors cannot be watched. {advice}"
        )


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


def _current() -> Connection:
    context = ray.get_runtime_context()
    return Connection(os.getpid(), context.get_node_id(), context.get_job_id())
