"""The environments of one worker: made, and asked for what is answered in the same way wherever the worker is.

An `EnvHost` is a part of every worker, be it a process or an actor of Ray; see
`superdex.lab.gym.vector.requests`. `make_envs` is how all vector environments here make theirs.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.envs.env_state import EnvState
from superdex.lab.gym.vector.attributes import call_envs, run_all, set_env_attr
from superdex.lab.gym.vector.autoreset import Autoreset
from superdex.lab.gym.vector.backend import InnerBackend, StepBuffers
from superdex.lab.gym.vector.checks import check_spaces
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.errors import RemoteError, name_environment
from superdex.lab.gym.vector.infos import relocate
from superdex.lab.gym.vector.partition import make_backend
from superdex.lab.gym.vector.requests import CALL, CAPTURE, CLOSE, ERROR, KEYS, OK, RESTORE, SET, Description
from superdex.lab.gym.vector.wire import dumps

__all__ = ["EnvHost", "failure", "make_envs"]


def make_envs(
    factories: Sequence[Callable[[], Any]],
    first_environment: int,
    num_threads: int,
    automatic: int,
    mode: AutoresetMode,
    check: Callable[[gymnasium.Env, int], None] | None = None,
) -> tuple[Autoreset, tuple[InnerBackend, ...], tuple[Box, Box]]:
    """Make environments and what steps them; if that fails, close those that were made.

    Args:
        factories: one per environment.
        first_environment: the index of the first among all environments, for errors.
        num_threads, automatic: see `make_backend`.
        mode: when an environment whose episode ended is reset.
        check: raises if an environment, which has this index, is not one to be stepped.

    Returns:
        What steps them, how it does (with indices into `factories`), and their (observation, action) spaces.
    """
    made: list[gymnasium.Env] = []
    try:
        for factory in factories:
            index = first_environment + len(made)
            made.append(_make_env(factory, index))
            if check is not None:
                check(made[-1], index)
        backend, inner_backends = make_backend(made, num_threads, automatic)
        spaces = check_spaces(made, backend.distinct, first_environment)
    except BaseException:
        with suppress(Exception):  # the first error counts
            run_all(env.close for env in made)
        raise
    return Autoreset(backend, mode, first_environment), inner_backends, spaces


def _make_env(factory: Callable[[], Any], environment: int) -> gymnasium.Env:
    try:
        env = factory()
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"A factory must return a gymnasium.Env, got {env!r}.")
    except BaseException as error:
        name_environment(error, environment, by="Raised by the factory of")
        raise
    return env


class EnvHost:
    """The environments of one worker.

    Args:
        rows: which of all environments these are.
        factories: one for each.
        num_threads: native threads of each batch; 0 for what the environments' configuration says, else 1.
        mode: when an environment whose episode ended is reset.
    """

    out: StepBuffers
    """Where results go; set by who hosts the environments, before the first RESET."""

    def __init__(
        self, rows: slice, factories: Sequence[Callable[[], Any]], num_threads: int, mode: AutoresetMode
    ) -> None:
        self.rows = rows
        self.autoreset, inner_backends, spaces = make_envs(factories, rows.start, num_threads, 1, mode)
        first = self.envs[0]
        self.description = Description(
            spaces, dict(first.metadata), first.render_mode, tuple(map(self._globally, inner_backends))
        )
        self.handlers: dict[bytes, Callable[[bytes], bytes]] = {
            CALL: self._call,
            SET: self._set,
            KEYS: self._keys,
            CAPTURE: self._capture,
            RESTORE: self._restore,
            CLOSE: self._close,
        }
        """What makes the reply to a request without its first byte, by that byte."""

    @property
    def envs(self) -> Sequence[gymnasium.Env]:
        """The environments."""
        return self.autoreset.backend.envs

    def reset(self, request: bytes) -> Columns:
        """Do what a RESET asks; the infos."""
        seeds, options, pending = pickle.loads(request)
        columns = self.autoreset.reset(seeds, pickle.loads(options), self.out.observation)
        if pending is not None:
            self.autoreset.pending[:] = pending
        return relocate(columns, self.rows)

    def step(self, actions: np.ndarray) -> Columns:
        """Step all environments; the infos."""
        return relocate(self.autoreset.step(actions, self.out), self.rows)

    def _globally(self, inner: InnerBackend) -> InnerBackend:
        return replace(inner, environments=tuple(self.rows.start + row for row in inner.environments))

    def _call(self, request: bytes) -> bytes:
        member, environments = pickle.loads(request)
        name, args, kwargs = pickle.loads(member)
        results = call_envs(self.envs, name, args, kwargs, environments, self.rows.start)
        return OK + dumps(results, f"What {name!r} returned")

    def _set(self, request: bytes) -> bytes:
        taken = 0
        try:
            name, values = pickle.loads(request)
            for row, value in enumerate(values):
                set_env_attr(self.envs[row : row + 1], name, [value], self.rows.start + row)
                taken += 1
        except BaseException as error:
            return OK + pickle.dumps((taken, RemoteError.of(error)))
        return OK + pickle.dumps((taken, None))

    def _keys(self, request: bytes) -> bytes:
        return OK + pickle.dumps(self.autoreset.backend.state_keys())

    def _capture(self, request: bytes) -> bytes:
        sections, pending = self.autoreset.capture()
        moved = [replace(section, environments=section.environments + self.rows.start) for section in sections]
        return OK + pickle.dumps((moved, pending))

    def _restore(self, request: bytes) -> bytes:
        state: EnvState = pickle.loads(request)
        self.autoreset.restore(state)
        self.out.observation[...] = state.observation
        return OK

    def _close(self, request: bytes) -> bytes:
        self.autoreset.close()
        return OK


def failure(error: BaseException) -> bytes:
    """The reply that says what went wrong; an environment's SystemExit is its error, not the end of the worker."""
    return ERROR + pickle.dumps(RemoteError.of(error))
