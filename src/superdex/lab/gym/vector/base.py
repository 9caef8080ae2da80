"""What every vector environment here has in common.

`BatchedVectorEnv` is the contract: it checks arguments, keeps the life cycle
(reset before step, nothing after close), merges infos and hands results to the
caller. A subclass steps environments: it writes results to `self._buffers` and
returns infos as columns. See `HybridVectorEnv` and `SceneVectorEnv`.

A call with bad arguments raises before anything changes. Results are the
caller's to keep, unless the environment was made with `copy=False`: then
observations, rewards and flags are views that the next call overwrites.

An exception that comes out of `reset` or `step` leaves environments in the middle of
something, some stepped and some not. They are never stepped on from there: those
with workers are closed; `SceneVectorEnv` stays open, and `step` raises `ResetNeeded`
until a `reset` of all environments has begun anew. So it does, everywhere, after
a `restore_state` that failed half-way.

A vector environment is for the process that made it. A forked child has neither its threads nor its
workers: calls raise RuntimeError, and `close` leaves the environments alone.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from superdex.lab.gym.envs.env_state import EnvState, Section, SectionKey, require_state
from superdex.lab.gym.vector.attributes import check_shared
from superdex.lab.gym.vector.backend import InnerBackend, StepBuffers
from superdex.lab.gym.vector.checks import (
    check_actions,
    check_environments,
    check_options,
    check_running,
    check_seeds,
)
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.infos import merge
from superdex.lab.gym.vector.step_result import BatchedStepResult
from superdex.physics.forking import require_same_process

__all__ = ["BatchedVectorEnv"]

_DIRECT_CALLS = frozenset({"reset", "step", "close"})


class BatchedVectorEnv(VectorEnv):
    """A vector environment over `Box` spaces that returns `BatchedStepResult`s."""

    single_observation_space: Box  # type: ignore[assignment]
    single_action_space: Box  # type: ignore[assignment]
    observation_space: Box
    action_space: Box

    closed = True  # until `_describe`: before that there is nothing to close (Gymnasium 1.2 closes in __del__)
    inner_backends: tuple[InnerBackend, ...] = ()
    """How the environments are stepped, and why."""
    _marks: frozenset[str] = frozenset()

    _supports_reset_mask = False
    _ready = False
    _owner: int | None = None
    """The process that made it, once it is described."""
    _buffers: StepBuffers

    def _describe(
        self,
        spaces: tuple[Box, Box],
        num_envs: int,
        metadata: dict[str, Any],
        render_mode: str | None,
        autoreset_mode: AutoresetMode,
        copy: bool,
    ) -> None:
        """Set the public attributes and be open; `spaces` are one environment's (observation, action)."""
        self.closed = False
        self._owner = os.getpid()
        self.num_envs = num_envs
        self._over = np.zeros(num_envs, np.bool_)  # with autoreset disabled: ended, and not reset since
        self.single_observation_space, self.single_action_space = spaces  # type: ignore[assignment]
        self.observation_space = batch_space(spaces[0], num_envs)  # type: ignore[assignment]
        self.action_space = batch_space(spaces[1], num_envs)  # type: ignore[assignment]
        self.metadata = {**metadata, "autoreset_mode": autoreset_mode}
        self.render_mode = render_mode
        self.autoreset_mode = autoreset_mode
        self.copy = copy

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | NDArray[np.integer] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start new episodes; returns observations (num_envs, ...) and infos.

        `seed`: None leaves every generator as it is; an int gives environment i
        the seed `seed + i`; a list, tuple or integer array gives each its own.
        `options` go to every environment, each of which gets its own copy.
        """
        self._require_open()
        seeds = check_seeds(seed, self.num_envs)
        env_options, mask = check_options(options, self.num_envs, self._supports_reset_mask)
        packed = self._pack_options(env_options)
        if mask is not None and not self._ready and not mask.all():
            raise ResetNeeded("Reset all environments, without a mask, before the first selective reset.")
        try:
            columns = self._reset_envs(seeds, packed, mask)
        except BaseException:
            self._fail()
            raise
        rows = slice(None) if mask is None else mask
        for flags in (self._buffers.terminated, self._buffers.truncated, self._over):
            flags[rows] = False
        self._ready = True
        return self._keep(self._buffers.observation), merge(columns, self.num_envs)

    def step(self, actions: np.ndarray) -> BatchedStepResult:  # type: ignore[override]
        """Step every environment with its row of `actions`, an array of exactly `action_space.shape`."""
        self._require_open()
        if not self._ready:
            raise ResetNeeded("Call reset() before the first step() and after a call that failed.")
        actions = check_actions(actions, self.action_space)
        out = self._buffers
        disabled = self.autoreset_mode is AutoresetMode.DISABLED
        if disabled:
            check_running(self._over)
        try:
            columns = self._step_envs(actions)
        except BaseException:
            self._fail()
            raise
        if disabled:
            np.logical_or(out.terminated, out.truncated, out=self._over)
        kept = map(self._keep, (out.observation, out.reward, out.terminated, out.truncated))
        return BatchedStepResult._make((*kept, merge(columns, self.num_envs)))

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment, or get an attribute; one result per environment."""
        return self.call_on(None, name, *args, **kwargs)

    def call_on(
        self, environments: Sequence[int] | np.ndarray | None, name: str, /, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        """As `call`, in some environments; one result for each of them.

        Args:
            environments: indices, or a boolean mask (num_envs,), of those to call, None for all;
                the others, and workers that have none of these, do nothing.
            name: of a method, which gets the further arguments, or of an attribute.

        Raises:
            ValueError, TypeError: if there is no such environment.
        """
        self._require_open()
        if name in _DIRECT_CALLS:
            raise ValueError(f"call({name!r}) would go behind the vector environment's back; use {name}() itself.")
        chosen = None if environments is None else check_environments(environments, self.num_envs)
        return self._call_envs(name, args, kwargs, chosen)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every environment, as `call`; `call("get_wrapper_attr", name)` gets a method uncalled."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every environment: a list or tuple has one value for each, else all get `values`."""
        self._require_open()
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(
                f"set_attr() takes one value per environment: {self.num_envs} environments, got {len(values)} values."
            )
        self._check_hooks_see(name, values)
        self._set_env_attr(name, values)

    def _check_hooks_see(self, name: str, values: Sequence[Any]) -> None:
        """Refuse values that differ within a native batch, unless no environment has such an attribute of its own."""
        batches = [inner.environments for inner in self.inner_backends if inner.kind == "native"]
        if batches and name not in self._marks:
            known = self.call("has_wrapper_attr", name)
            check_shared(name, values, [batch for batch in batches if known[batch[0]]])
            if not any(known):
                self._marks = self._marks | {name}  # the caller's own, which no hook reads

    def render(self, environments: Sequence[int] | np.ndarray | None = None) -> tuple[Any, ...]:
        """What `render` of each environment returns: its frame, (height, width, 3), in render mode "rgb_array".

        `environments` as in `call_on`.
        """
        return self.call_on(environments, "render")

    def capture_state(self) -> EnvState:
        """Everything that decides the environments' future; see `superdex.lab.gym.envs.env_state`.

        Raises:
            TypeError: if an environment is not a `MochiEnv` task, or wrapped: the message says which.
            RuntimeError: if a scene's state cannot be captured (ROM actors, sleep), or workers were started
                again and the next step is still to tell (`RestartUntoldError`): step once, then capture.
        """
        self._require_open()
        sections, pending = self._capture_envs()
        return EnvState.join(sections, pending, self._buffers.observation.copy(), self.autoreset_mode.value)

    def restore_state(self, state: EnvState) -> np.ndarray:
        """Continue from a captured state, to the bit; its environments may have been split in another way.

        Returns:
            (num_envs, ...) the observations that were returned last before the capture.

        Raises:
            ValueError: if the state is of other tasks, configurations, or another number of them.
        """
        self._require_open()
        require_state(state)
        state.require_fit(self._state_keys(), self.autoreset_mode.value)
        ready, self._ready = state.is_reset, False  # if it fails, some are restored and some are not
        self._restore_envs(state)
        self._buffers.observation[...] = state.observation
        self._buffers.terminated[:] = state.pending
        self._buffers.truncated[:] = False
        self._over[:] = state.pending
        self._ready = ready
        return self._keep(self._buffers.observation)

    @property
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The random generators of the environments, as in `SyncVectorEnv`."""
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seeds of the environments' generators."""
        return self.get_attr("np_random_seed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _require_open(self) -> None:
        self._require_same_process()
        if self.closed:
            raise ClosedEnvironmentError(
                f"This {type(self).__name__} is closed, by close() or after an error. Make a new one."
            )

    def _require_same_process(self) -> None:
        if self._owner is not None:
            require_same_process(self._owner, type(self).__name__)

    def _keep(self, values: np.ndarray) -> np.ndarray:
        return values.copy() if self.copy else values

    def _fail(self) -> None:
        """Called when environments were left in the middle of a reset or step."""
        self._ready = False

    def _pack_options(self, options: dict[str, Any] | None) -> Any:
        """`options` as `_reset_envs` takes them; raises where they cannot be used."""
        return options

    @abstractmethod
    def _reset_envs(self, seeds: list[int | None] | None, options: Any, mask: NDArray[np.bool_] | None) -> Columns:
        """Reset all environments, or those of `mask`; `seeds` has `num_envs` entries."""

    @abstractmethod
    def _step_envs(self, actions: np.ndarray) -> Columns:
        """Step all environments."""

    @abstractmethod
    def _call_envs(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], environments: list[int] | None
    ) -> tuple[Any, ...]:
        """`call_on` these environments, or all."""

    @abstractmethod
    def _set_env_attr(self, name: str, values: list[Any] | tuple[Any, ...]) -> None:
        """`set_attr` on every environment, one value for each."""

    @abstractmethod
    def _state_keys(self) -> list[SectionKey]:
        """What each environment must share with another to continue from its state."""

    @abstractmethod
    def _capture_envs(self) -> tuple[list[Section], NDArray[np.bool_]]:
        """The states of all environments, and (num_envs,) which of them autoreset still has to reset."""

    @abstractmethod
    def _restore_envs(self, state: EnvState) -> None:
        """Continue from a state that fits."""
