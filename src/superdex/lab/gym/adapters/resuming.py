"""What decides the future of a training, as one flat dictionary of arrays: taken together, restored together or not."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Protocol

import numpy as np

from superdex.lab.gym.adapters.generators import generator_states, restore_generators

__all__ = ["Part", "captured", "restore"]

_GENERATOR = "generator"


class Part(Protocol):
    """Keeps state of its own."""

    def state(self) -> dict[str, np.ndarray]:
        """Everything that decides its future, as arrays."""
        ...

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a `state()`; ValueError if it does not fit."""
        ...


def captured(parts: Mapping[str, Part]) -> dict[str, np.ndarray]:
    """The states of all parts, as "part/name", and of the global random generators; copies."""
    states = {f"{name}/{key}": value for name, part in parts.items() for key, value in part.state().items()}
    return {key: np.array(value) for key, value in (states | generator_states()).items()}


def restore(parts: Mapping[str, Part], state: Mapping[str, np.ndarray]) -> None:
    """Let all parts and the generators continue from what `captured` gave; if one refuses, none has changed.

    Raises:
        ValueError: if the state has other parts, or one of them does not fit.
        KeyError: if the state of a part is not complete.
    """
    found = {key.partition("/")[0] for key in state if "/" in key} - {_GENERATOR}
    if found != parts.keys():
        raise ValueError(
            f"The state has {sorted(found)}, this training {sorted(parts)}: make the adapter and load the policy with"
            " the normalisation that they were saved with."
        )
    arrays = {key: np.array(state[key]) for key in state if "/" in key}
    for name, part in parts.items():
        deepcopy(part).load_state(_of(name, arrays))
    restore_generators(arrays)
    for name, part in parts.items():
        part.load_state(_of(name, arrays))


def _of(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    prefix = f"{name}/"
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
