"""What a vector environment accepts: every argument check, each in one function.

All of them run before anything changes, so a refused call leaves the
environment as it was. They return the argument in its one internal form and
never change what they were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

__all__ = [
    "check_actions",
    "check_autoreset_mode",
    "check_environments",
    "check_options",
    "check_running",
    "check_seeds",
    "check_spaces",
    "refuse_space",
    "same_space",
]

NO_RESET_MASK = (
    "Reset mask is not supported for this vectorization. "
    "Use Gymnasium's AsyncVectorEnv or SyncVectorEnv directly for selective resets."
)
_TO_BOX = {
    "observation": "Flatten it with gymnasium.wrappers.FlattenObservation or a wrapper of your own.",
    "action": "Put the environment in a gymnasium.ActionWrapper that takes a Box.",
}
_NAMED = 10


def check_autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """The mode, given by itself or by its value ("NextStep", ...)."""
    try:
        return AutoresetMode(mode)
    except ValueError:
        known = ", ".join(repr(each.value) for each in AutoresetMode)
        raise ValueError(f"autoreset_mode must be an AutoresetMode or one of {known}, got {mode!r}.") from None


def check_actions(actions: Any, space: Box) -> np.ndarray:
    """`actions` in the dtype of the batched action space, or ValueError.

    Values outside of the space pass: each environment decides what to do with
    them. Floats too large for a narrower float dtype become its largest number.
    """
    if not isinstance(actions, np.ndarray):
        raise ValueError(
            f"step() takes a NumPy array of shape {space.shape}, got {type(actions).__name__}. "
            f"Convert it by np.asarray(actions, dtype=np.{space.dtype})."
        )
    if actions.shape != space.shape:
        raise ValueError(
            f"step() takes actions of shape {space.shape}, one row per environment, got shape {actions.shape}."
        )
    if actions.dtype != space.dtype and not (
        actions.dtype.kind in "biuf" and np.can_cast(actions.dtype, space.dtype, "same_kind")
    ):
        raise ValueError(
            f"step() takes actions of dtype {space.dtype}, got {actions.dtype}, which does not convert to it. "
            f"Convert them by actions.astype(np.{space.dtype})."
        )
    if actions.dtype.kind == "f" and not np.isfinite(actions).all():
        _refuse_rows("hold NaN or infinity", ~np.isfinite(actions))
    return actions if actions.dtype == space.dtype else _cast_actions(actions, space.dtype)


def _cast_actions(actions: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        return np.clip(actions, limits.min, limits.max).astype(dtype)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        outside = (actions < bounds.min) | (actions > bounds.max)
        if outside.any():
            _refuse_rows(f"do not fit in {dtype}", outside)
    return actions.astype(dtype)


def _refuse_rows(what: str, bad: NDArray[np.bool_]) -> None:
    rows = np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1)).tolist()
    named = ", ".join(map(str, rows[:_NAMED])) + (", ..." if len(rows) > _NAMED else "")
    raise ValueError(
        f"The actions of {len(rows)} environment(s) {what}: environment {named}. "
        "Nothing was stepped; check what computes the actions."
    )


def check_environments(environments: Any, num_envs: int) -> list[int]:
    """The chosen environments in the order given: all (None), those of a boolean mask (num_envs,), or by index."""
    if environments is None:
        return list(range(num_envs))
    chosen = np.asarray(environments)
    if chosen.dtype == np.bool_:
        if chosen.shape != (num_envs,):
            raise ValueError(
                f"A mask of environments has one boolean for each of the {num_envs}, got shape {chosen.shape}."
            )
        return np.flatnonzero(chosen).tolist()
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise TypeError(
            "environments must be None (all), a list of indices, or a boolean mask with one entry per environment,"
            f" got {environments!r}."
        )
    indices: list[int] = chosen.tolist()
    for index in indices:
        if not 0 <= index < num_envs:
            raise ValueError(f"There is no environment {index}: they are numbered from 0 to {num_envs - 1}.")
    if len(set(indices)) < len(indices):
        raise ValueError(f"Each environment can be chosen once, got {indices}.")
    return indices


def check_running(ended: NDArray[np.bool_]) -> None:
    """Without autoreset: refuse to step while an episode has `ended` and its environment was not reset."""
    if ended.any():
        raise ResetNeeded(
            f"The episodes of environments {np.flatnonzero(ended).tolist()} have ended and autoreset is disabled. "
            "Reset them before the next step, or choose another autoreset_mode."
        )


def check_seeds(seed: Any, num_envs: int) -> list[int | None] | None:
    """One seed per environment, or None to leave every generator as it is.

    An int gives environment i the seed `seed + i`, as in `SyncVectorEnv`.
    """
    if seed is None:
        return None
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        first = _check_seed(seed, "seed")
        return list(range(first, first + num_envs))
    if isinstance(seed, np.ndarray) and seed.ndim == 1 and seed.dtype.kind in "iu":
        seed = seed.tolist()
    if not isinstance(seed, list | tuple):
        given = f"an array of {seed.dtype}, shape {seed.shape}" if isinstance(seed, np.ndarray) else repr(seed)
        raise TypeError(
            "seed must be None, an int, or a list, tuple or 1-D integer array with one seed per environment, "
            f"got {given}."
        )
    if len(seed) != num_envs:
        raise ValueError(
            f"A sequence of seeds needs one entry per environment: {num_envs} environments, got {len(seed)} seeds."
        )
    return [None if entry is None else _check_seed(entry, f"seed[{i}]") for i, entry in enumerate(seed)]


def _check_seed(seed: Any, name: str) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"{name} must be an int or None, got {seed!r} ({type(seed).__name__}).")
    if seed < 0:
        raise ValueError(f"{name} must not be negative, got {seed}.")
    return int(seed)


def check_options(
    options: Any, num_envs: int, masks_supported: bool
) -> tuple[dict[str, Any] | None, NDArray[np.bool_] | None]:
    """The options for the environments, and the reset mask if there is one."""
    if options is None:
        return None, None
    if not isinstance(options, dict):
        raise TypeError(f"options must be None or a dict, got {options!r} ({type(options).__name__}).")
    if "reset_mask" not in options:
        return options, None
    if not masks_supported:
        raise ValueError(NO_RESET_MASK)
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        given = f"an array of {mask.dtype}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise TypeError(f"options['reset_mask'] must be a NumPy array of bool, got {given}.")
    if mask.shape != (num_envs,):
        raise ValueError(f"options['reset_mask'] must have shape ({num_envs},), got {mask.shape}.")
    if not mask.any():
        raise ValueError("options['reset_mask'] must be True for at least one environment; it is False for all.")
    return {key: value for key, value in options.items() if key != "reset_mask"}, mask.copy()


def check_spaces(
    envs: Sequence[gymnasium.Env], rows: Sequence[int] | None = None, first_environment: int = 0
) -> tuple[Box, Box]:
    """The observation and action space that all `envs` share.

    Args:
        envs: the environments of one process.
        rows: which of them to look at, by default all (see `Backend.distinct`).
        first_environment: the global index of `envs[0]`, for errors.
    """
    rows = range(len(envs)) if rows is None else rows
    for kind in ("observation", "action"):
        expected = getattr(envs[rows[0]], f"{kind}_space")
        for row in rows:
            space = getattr(envs[row], f"{kind}_space")
            if not isinstance(space, Box):
                raise ValueError(
                    f"The {kind} space of environment {first_environment + row} must be a Box, got {space}."
                    f" {_TO_BOX[kind]}"
                )
            if not same_space(space, expected):
                refuse_space(kind, first_environment + row, space, first_environment + rows[0], expected)
    return envs[rows[0]].observation_space, envs[rows[0]].action_space  # type: ignore[return-value]


def refuse_space(kind: str, environment: int, space: Any, reference: int, expected: Any) -> None:
    """Raise the error for an environment whose space is not that of another."""
    raise RuntimeError(
        f"All environments must have the same {kind} space, but environment {environment} has {space} "
        f"and environment {reference} has {expected}."
    )


def same_space(space: Box, other: Box) -> bool:
    """`space == other`, fast where they are equal to the bit (thousands of environments are compared)."""
    if space is other:
        return True
    if space.shape == other.shape and space.dtype == other.dtype:
        bounds = (space.low, other.low), (space.high, other.high)
        if all(a is b or a.tobytes() == b.tobytes() for a, b in bounds):
            return True
    return space == other
