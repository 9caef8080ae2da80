"""Calls that a vector environment must refuse, and after which it must go on as if they had not been made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from superdex.lab.gym.vector.base import BatchedVectorEnv

__all__ = ["BAD_CALLS", "BAD_FOR_PROCESSES", "BadCall"]


@dataclass(frozen=True)
class BadCall:
    """A call and what it must raise."""

    call: Callable[[BatchedVectorEnv], Any]
    error: type[Exception] | tuple[type[Exception], ...]

    def check(self, env: BatchedVectorEnv) -> None:
        """Make the call."""
        with pytest.raises(self.error):
            self.call(env)
        assert not env.closed


def _zeros(env: BatchedVectorEnv, *shape: int) -> np.ndarray:
    return np.zeros(shape or env.action_space.shape, env.action_space.dtype)


def _call_with_no_such_argument(env: BatchedVectorEnv) -> None:
    env.call("set_wrapper_attr", "name", 1, no_such_argument=True)


BAD_CALLS: dict[str, BadCall] = {
    "step: a list": BadCall(lambda env: env.step(_zeros(env).tolist()), ValueError),  # type: ignore[arg-type]
    "step: one row short": BadCall(lambda env: env.step(_zeros(env)[1:]), ValueError),
    "step: one axis more": BadCall(lambda env: env.step(_zeros(env)[..., None]), ValueError),
    "step: complex": BadCall(lambda env: env.step(_zeros(env).astype(np.complex128)), ValueError),
    "step: text": BadCall(lambda env: env.step(np.full(env.action_space.shape, "left")), ValueError),
    "step: NaN": BadCall(lambda env: env.step(np.full(env.action_space.shape, np.nan, np.float32)), ValueError),
    "reset: a seed short": BadCall(lambda env: env.reset(seed=[1] * (env.num_envs - 1)), ValueError),
    "reset: a negative seed": BadCall(lambda env: env.reset(seed=-1), ValueError),
    "reset: one negative seed": BadCall(lambda env: env.reset(seed=[1] * (env.num_envs - 1) + [-1]), ValueError),
    "reset: seed by name": BadCall(lambda env: env.reset(seed="one"), TypeError),  # type: ignore[arg-type]
    "reset: float seeds": BadCall(lambda env: env.reset(seed=np.ones(env.num_envs)), TypeError),  # type: ignore[arg-type]
    "reset: options in a list": BadCall(lambda env: env.reset(options=[1]), TypeError),  # type: ignore[arg-type]
    "reset: a mask in a list": BadCall(
        lambda env: env.reset(options={"reset_mask": [True] * env.num_envs}), (TypeError, ValueError)
    ),
    "reset: a mask of nobody": BadCall(
        lambda env: env.reset(options={"reset_mask": np.zeros(env.num_envs, np.bool_)}), ValueError
    ),
    "call: no such method": BadCall(lambda env: env.call("no_such_method"), AttributeError),
    "call: no such argument": BadCall(_call_with_no_such_argument, TypeError),
    "call: step": BadCall(lambda env: env.call("step", 0), ValueError),
    "get_attr: no such attribute": BadCall(lambda env: env.get_attr("no_such_attribute"), AttributeError),
    "set_attr: a value too many": BadCall(lambda env: env.set_attr("note", [1] * (env.num_envs + 1)), ValueError),
    "set_attr: a property": BadCall(lambda env: env.set_attr("unwrapped", 1), AttributeError),
    "restore_state: no state": BadCall(lambda env: env.restore_state(None), TypeError),  # type: ignore[arg-type]
}

BAD_FOR_PROCESSES: dict[str, BadCall] = {
    "reset: a lock": BadCall(lambda env: env.reset(options={"lock": threading.Lock()}), TypeError),
    "call: a lock": BadCall(lambda env: env.call("set_wrapper_attr", "note", threading.Lock()), TypeError),
    "set_attr: a lock": BadCall(lambda env: env.set_attr("note", threading.Lock()), TypeError),
    "get_attr: what cannot be sent": BadCall(lambda env: env.get_attr("__class__.no"), AttributeError),
    "reset: a mask": BadCall(
        lambda env: env.reset(options={"reset_mask": np.ones(env.num_envs, np.bool_)}), ValueError
    ),
}
"""For environments in other processes only."""
