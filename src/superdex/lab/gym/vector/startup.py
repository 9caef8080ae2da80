"""What vector environments with workers check and prepare before they start one."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from multiprocessing import process
from multiprocessing.context import BaseContext
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.spaces import Box

from superdex.lab.gym.vector.checks import refuse_space, same_space

__all__ = [
    "EXIT_UNGUARDED",
    "UNGUARDED_MESSAGE",
    "WORKER_NAME",
    "EnvFactory",
    "check_agreement",
    "check_context",
    "check_count",
    "check_factories",
    "check_failure_policy",
    "check_process",
    "pickle_factories",
]

EnvFactory = Callable[[], gymnasium.Env]

WORKER_NAME = "superdex-worker-"
"""How the names of worker processes begin."""

EXIT_UNGUARDED = 83
"""How a worker ends if its import of the main module constructs a vector environment."""

UNGUARDED_MESSAGE = (
    "A HybridVectorEnv was constructed in a new process that was importing the main module. Workers are spawned, so "
    "each of them imports your script: put what constructs the environment in a function, and call it under "
    '`if __name__ == "__main__":`.'
)


def check_process() -> None:
    """Refuse to start workers where they cannot be started."""
    current = process.current_process()
    if getattr(current, "_inheriting", False):
        if current.name.startswith(WORKER_NAME):
            os._exit(EXIT_UNGUARDED)  # without a word: the caller sees the code and explains
        raise RuntimeError(UNGUARDED_MESSAGE)
    if current.daemon:
        raise RuntimeError(
            f"HybridVectorEnv starts processes, which a daemonic process ({current.name}) may not. "
            "Construct it in the main process, or make this process non-daemonic."
        )
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is not None and main.__spec__ is None and not os.path.exists(path):
        raise RuntimeError(
            f"Workers are spawned, so each of them imports the main module, and its file {path!r} does not exist (a "
            'script read from standard input has none). Save the script to a file, or give it to "python -c".'
        )


def check_count(name: str, value: Any, least: int = 1) -> None:
    """`value` must be an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be an int, got {value!r} ({type(value).__name__}).")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}.")


def check_failure_policy(on_worker_failure: Any, max_worker_restarts: Any, worker_timeout: Any) -> None:
    """Check the arguments that say what happens if a worker fails."""
    if on_worker_failure not in ("raise", "restart"):
        raise ValueError(f'on_worker_failure must be "raise" or "restart", got {on_worker_failure!r}.')
    check_count("max_worker_restarts", max_worker_restarts)
    if worker_timeout is None:
        return
    if isinstance(worker_timeout, bool) or not isinstance(worker_timeout, int | float | np.integer | np.floating):
        kind = type(worker_timeout).__name__
        raise ValueError(f"worker_timeout must be a number of seconds or None, got {worker_timeout!r} ({kind}).")
    if not 0 < worker_timeout < float("inf"):
        raise ValueError(f"worker_timeout must be positive and finite, or None for no limit, got {worker_timeout}.")


def check_factories(env_fns: Any, num_envs_per_worker: int) -> list[EnvFactory]:
    """The factories as a list that divides into workers."""
    if callable(env_fns):
        raise TypeError("env_fns must be a sequence of factories, one per environment, got a single callable.")
    factories = list(env_fns)
    for index, factory in enumerate(factories):
        if not callable(factory):
            raise TypeError(
                f"env_fns[{index}] must be a function without arguments that makes an environment, as in "
                f"`lambda: MyEnv()`, got {type(factory).__name__}."
            )
    if not factories:
        raise ValueError("env_fns must have at least one factory, got none.")
    if len(factories) % num_envs_per_worker != 0:
        raise ValueError(
            "The total number of environments must be divisible by the number of environments per process."
        )
    return factories


def check_context(context: str | BaseContext | None) -> None:
    """Warn if anything but "spawn" is asked for."""
    method = context.get_start_method() if isinstance(context, BaseContext) else context
    if method not in (None, "spawn"):
        warnings.warn(
            f'HybridVectorEnv always starts its workers by "spawn"; context {method!r} is ignored.',
            RuntimeWarning,
            stacklevel=3,
        )


def pickle_factories(env_fns: Sequence[EnvFactory], rows: slice) -> bytes:
    """The factories of one worker: in one piece, so that what they share is sent once."""
    try:
        return cloudpickle.dumps(env_fns[rows])
    except Exception:
        for index in range(rows.start, rows.stop):
            _pickle_factory(env_fns[index], index)
        raise


def _pickle_factory(factory: EnvFactory, index: int) -> None:
    try:
        cloudpickle.dumps(factory)
    except Exception as error:
        raise TypeError(
            f"env_fns[{index}] cannot be sent to a worker process: {error}. "
            "Let the factory make what it needs, rather than refer to objects such as locks or open files."
        ) from error


def check_agreement(spaces: Sequence[tuple[Box, Box]], num_envs_per_worker: int) -> None:
    """The (observation, action) spaces of all workers must be those of the first."""
    for worker, own in enumerate(spaces):
        for kind, space, expected in zip(("observation", "action"), own, spaces[0], strict=True):
            if not same_space(space, expected):
                refuse_space(kind, worker * num_envs_per_worker, space, 0, expected)
