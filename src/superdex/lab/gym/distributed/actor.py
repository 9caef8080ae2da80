"""The actor: makes the environments of one worker, then does what the caller asks.

Requests and replies are those of a worker process (`superdex.lab.gym.vector.worker`),
with one more: `COLLECT` (seeds, num_steps, first_step) steps the environments
with a policy and gives back a `Rollout`; with seeds, it resets them first.

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
from dataclasses import dataclass, replace
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
from superdex.lab.gym.vector.backend import InnerBackend
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.errors import RemoteError
from superdex.lab.gym.vector.infos import relocate
from superdex.lab.gym.vector.wire import dumps
from superdex.lab.gym.vector.worker import (
    CALL,
    CAPTURE,
    CLOSE,
    ERROR,
    KEYS,
    OK,
    RENDER,
    RESET,
    RESTORE,
    SET,
    STEP,
    Description,
)

__all__ = ["COLLECT", "ActorJob", "EnvActor", "Greeting", "Reply", "collect_request", "versions"]

COLLECT = b"c"
"""The first byte of a request to collect a rollout."""

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
        return _answered(lambda: self._handlers[request[:1]](request[1:], cargo))

    def _start(self, job: ActorJob) -> Reply:
        self._rows = job.rows
        factories = pickle.loads(job.factories)
        self._envs = envs = SliceVectorEnv(factories, job.rows.start, job.num_threads, job.autoreset_mode)
        self._actions = np.zeros(envs.action_space.shape, envs.action_space.dtype)
        self._handlers: dict[bytes, Callable[[bytes, Any], Reply]] = {
            RESET: self._reset,
            STEP: self._step,
            CALL: self._call,
            RENDER: self._render,
            SET: self._set,
            KEYS: self._keys,
            CAPTURE: self._capture,
            RESTORE: self._restore,
            COLLECT: self._collect,
            CLOSE: self._close,
        }
        spaces = envs.single_observation_space, envs.single_action_space
        inner_backends = tuple(map(self._globally, envs.inner_backends))
        metadata = {key: value for key, value in envs.metadata.items() if key != "autoreset_mode"}
        description = Description(spaces, metadata, envs.render_mode, inner_backends)
        return OK + dumps(description, "The description of the environments"), None

    def _globally(self, inner: InnerBackend) -> InnerBackend:
        return InnerBackend(inner.kind, tuple(self._rows.start + e for e in inner.environments), inner.reason)

    def _reset(self, request: bytes, cargo: None) -> Reply:
        seeds, options, pending = pickle.loads(request)
        columns = self._envs.reset_columns(seeds, pickle.loads(options), pending)
        return OK + self._packed(columns), self._envs.results.observation

    def _step(self, request: bytes, cargo: np.ndarray) -> Reply:
        self._actions[...] = cargo  # which cannot be written to, unlike what an environment gets elsewhere
        columns = self._envs.step_columns(self._actions)
        out = self._envs.results
        return OK + self._packed(columns), (out.observation, out.reward, out.terminated, out.truncated)

    def _packed(self, columns: Columns) -> bytes:
        placed = relocate(columns, self._rows)
        try:
            return cloudpickle.dumps(placed)
        except Exception:
            for key, parts in placed.items():
                dumps(parts, f"The info {key!r}")
            raise

    def _call(self, request: bytes, cargo: None) -> Reply:
        name, args, kwargs = pickle.loads(request)
        return OK + dumps(list(self._envs.call(name, *args, **kwargs)), f"What {name!r} returned"), None

    def _render(self, request: bytes, cargo: None) -> Reply:
        environments = [index - self._rows.start for index in pickle.loads(request)]
        return OK + dumps(list(self._envs.render(environments)), "What 'render' returned"), None

    def _set(self, request: bytes, cargo: None) -> Reply:
        self._envs.assign(*pickle.loads(request))
        return OK, None

    def _keys(self, request: bytes, cargo: None) -> Reply:
        return OK + pickle.dumps(self._envs.state_keys()), None

    def _capture(self, request: bytes, cargo: None) -> Reply:
        state = self._envs.capture_state()
        moved = [replace(part, environments=part.environments + self._rows.start) for part in state.sections]
        return OK + pickle.dumps((moved, state.pending)), None

    def _restore(self, request: bytes, cargo: None) -> Reply:
        self._envs.restore_state(pickle.loads(request))
        return OK, None

    def _collect(self, request: bytes, cargo: bytes) -> Reply:
        seeds, num_steps, first_step = pickle.loads(request)
        policy = pickle.loads(cargo)
        if seeds is not None:
            self._envs.reset(seed=seeds)
        observation = self._envs.results.observation
        rollout = collect(
            self._envs, policy, num_steps, observation=observation, first_step=first_step, environments=self._rows
        )
        return OK, rollout

    def _close(self, request: bytes, cargo: None) -> Reply:
        self._envs.close()
        return OK, None


def _answered(action: Callable[[], Reply]) -> Reply:
    try:
        return action()
    except BaseException as error:  # an environment's SystemExit is its error, not the end of the worker
        return ERROR + pickle.dumps(RemoteError.of(error)), None
