"""The actor: makes the environments of one worker, then does what the caller asks.

Requests and replies are those of `superdex.lab.gym.vector.requests`, with one more:
`COLLECT` (seeds, num_steps, first_step) steps the environments with a policy and
gives back a `Rollout`; with seeds, it resets them first.

An actor shares no memory with its caller, so a cargo goes with requests and
replies, which Ray sends without copies in between:

| request | its cargo | the reply's cargo |
|---|---|---|
| `RESET` | | observations |
| `STEP` | actions | observations, rewards, terminated, truncated |
| `COLLECT` | the policy, pickled | the rollout |

Arrays have one row for each environment of this worker. Infos are in the reply itself, as
pickled columns.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium
import mujoco
import numpy as np
import ray
from gymnasium.vector import AutoresetMode

import superdex
from superdex.lab.gym.distributed.slice_env import SliceVectorEnv
from superdex.lab.gym.rollouts import collect
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.host import EnvHost, failure
from superdex.lab.gym.vector.requests import COLLECT, OK, RESET, STEP
from superdex.lab.gym.vector.wire import dumps

__all__ = ["ActorJob", "EnvActor", "Greeting", "Reply", "collect_request", "versions"]

Reply = tuple[bytes, Any]
"""The reply and its cargo."""


@dataclass(frozen=True)
class ActorJob:
    """What one actor is to do."""

    rows: slice
    """Its environments among all."""
    factories: bytes
    """The cloudpickled list of their factories."""
    num_threads: int
    """Of each native batch; 0 for what the environments' configuration says."""
    autoreset_mode: AutoresetMode


@dataclass(frozen=True)
class Greeting:
    """What an actor says once its process is up."""

    node_id: str
    versions: dict[str, str]
    """Of the libraries that decide the results."""


def versions() -> dict[str, str]:
    """The versions of the libraries that decide the results, in this process."""
    return {
        "superdex-gym": _own_version(),
        "mujoco": mujoco.__version__,
        "numpy": np.__version__,
        "gymnasium": gymnasium.__version__,
    }


def _own_version() -> str:
    """Of this package; where it runs from a source tree, which has none, a hash of what can decide results."""
    try:
        return version("superdex-gym")
    except PackageNotFoundError:
        root = Path(superdex.__file__).parent
        return f"of sources {_digest((root / 'physics', root / 'lab' / 'gym'))}"


def _digest(folders: tuple[Path, ...]) -> str:
    """Of the names and contents of all modules and models in some folders, as they are now.

    So it tells that nodes have different files, but not that files have changed since a process imported them: an edit
    during a long training is no reason to refuse the successor of a worker that died.
    """
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".xml"):
                content = path.read_bytes()
                digest.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def collect_request(seeds: list[int | None] | None, num_steps: int, first_step: int) -> bytes:
    """A COLLECT; with `seeds`, one for each environment, it begins with a reset."""
    return COLLECT + pickle.dumps((seeds, num_steps, first_step))


class EnvActor:
    """The environments of one worker; a class for `ray.remote`."""

    def greet(self) -> Greeting:
        """Say that the process is up, and where."""
        return Greeting(ray.get_runtime_context().get_node_id(), versions())

    def start(self, job: ActorJob) -> Reply:
        """Make the environments; the reply is their pickled `Description`."""
        return _answered(lambda: self._start(job))

    def handle(self, request: bytes, cargo: Any = None) -> Reply:
        """Do what is asked; an exception is a reply too, and what it means is for the caller to decide."""
        return _answered(lambda: self._handle(request[:1], request[1:], cargo))

    def _start(self, job: ActorJob) -> Reply:
        self._host = host = EnvHost(job.rows, pickle.loads(job.factories), job.num_threads, job.autoreset_mode)
        description = dumps(host.description, "The description of the environments")
        self._envs = SliceVectorEnv(host)
        self._actions = np.zeros(self._envs.action_space.shape, self._envs.action_space.dtype)
        self._with_cargo: dict[bytes, Callable[[bytes, Any], Reply]] = {
            RESET: self._reset,
            STEP: self._step,
            COLLECT: self._collect,
        }
        return OK + description, None

    def _handle(self, kind: bytes, request: bytes, cargo: Any) -> Reply:
        if kind in self._with_cargo:
            return self._with_cargo[kind](request, cargo)
        return self._host.handlers[kind](request), None

    def _reset(self, request: bytes, cargo: None) -> Reply:
        columns = self._host.reset(request)
        return OK + _packed(columns), self._host.out.observation

    def _step(self, request: bytes, cargo: np.ndarray) -> Reply:
        self._actions[...] = cargo  # which cannot be written to, unlike what an environment gets elsewhere
        columns = self._host.step(self._actions)
        out = self._host.out
        return OK + _packed(columns), (out.observation, out.reward, out.terminated, out.truncated)

    def _collect(self, request: bytes, cargo: bytes) -> Reply:
        seeds, num_steps, first_step = pickle.loads(request)
        policy = pickle.loads(cargo)
        if seeds is not None:
            self._envs.reset(seed=seeds)
        observation, environments = self._host.out.observation, self._host.rows
        rollout = collect(
            self._envs, policy, num_steps, observation=observation, first_step=first_step, environments=environments
        )
        return OK, rollout


def _packed(columns: Columns) -> bytes:
    try:
        return cloudpickle.dumps(columns)
    except Exception:
        for key, parts in columns.items():
            dumps(parts, f"The info {key!r}")
        raise


def _answered(action: Callable[[], Reply]) -> Reply:
    try:
        return action()
    except BaseException as error:
        return failure(error), None
