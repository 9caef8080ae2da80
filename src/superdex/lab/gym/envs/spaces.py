"""Structured spaces, flattened to one Box.

A task names the parts of its observation and action; learners get one flat
array. Parts lie in the flat array in alphabetical order of their keys (or, if the
task asks for it, in the order of their declaration), each raveled in C order. All
functions keep leading axes: they serve one environment as well as a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from superdex.lab.gym.envs.errors import MissingHookError, TaskError

__all__ = ["FlatSpace", "FlattenedSpaces"]


class FlatSpace:
    """A dictionary of Boxes and its flat form.

    Args:
        parts: Boxes by key.
        what: "observation" or "action", for messages.
        alphabetical: whether the parts are put in the order of their keys.

    Raises:
        ValueError: if there are no parts, or one is not a Box.
    """

    def __init__(self, parts: Mapping[str, spaces.Space], what: str, *, alphabetical: bool = True) -> None:
        if not parts:
            raise TaskError(f"The {what} space has no parts: declare at least one Box by a key.")
        for key, part in parts.items():
            if not isinstance(part, spaces.Box):
                raise TaskError(f"Part {key!r} of the {what} space must be a Box, got {part}.")
        self.what = what
        order = sorted(parts) if alphabetical else parts
        self.parts: dict[str, spaces.Box] = {key: parts[key] for key in order}  # type: ignore[misc]
        self.dtype = np.result_type(*(part.dtype for part in self.parts.values()))
        self.slices: dict[str, slice] = {}
        self.size = 0
        for key, part in self.parts.items():
            size = int(np.prod(part.shape))
            self.slices[key] = slice(self.size, self.size + size)
            self.size += size
        self.low = np.concatenate([part.low.ravel() for part in self.parts.values()]).astype(self.dtype)
        self.high = np.concatenate([part.high.ravel() for part in self.parts.values()]).astype(self.dtype)

    def box(self) -> spaces.Box:
        """The flat space: a new Box, (size,)."""
        return spaces.Box(self.low, self.high, dtype=self.dtype)  # type: ignore[arg-type]

    def dict(self) -> spaces.Dict:
        """The structured space."""
        return spaces.Dict(list(self.parts.items()))

    def split(self, flat: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """(..., size) to views (..., *shape) by key."""
        if flat.shape[-1:] != (self.size,):
            raise ValueError(f"A flat {self.what} must have shape (..., {self.size}), got {flat.shape}.")
        return {
            key: flat[..., span].reshape((*flat.shape[:-1], *self.parts[key].shape))
            for key, span in self.slices.items()
        }

    def join(self, structured: Mapping[str, Any]) -> NDArray[Any]:
        """(..., *shape) by key to a new flat array (..., size)."""
        arrays = {key: np.asarray(value) for key, value in structured.items()}
        self.check_keys(arrays)
        key = next(iter(self.parts))
        lead = arrays[key].shape[: arrays[key].ndim - len(self.parts[key].shape)]
        flat = np.empty((*lead, self.size), self.dtype)
        self.write(arrays, flat)
        return flat

    def write(self, structured: Mapping[str, NDArray[Any]], flat: NDArray[Any]) -> None:
        """Write (..., *shape) by key into `flat`, (..., size).

        Raises:
            ValueError: if a part's shape is not the leading axes of `flat` and the shape it was declared with.
        """
        lead = flat.shape[:-1]
        for key, span in self.slices.items():
            value, shape = structured[key], self.parts[key].shape
            if value.shape != (*lead, *shape):
                raise TaskError(
                    f"Part {key!r} of the {self.what} must have shape {(*lead, *shape)}, got {value.shape}."
                )
            flat[..., span] = value if len(shape) == 1 else value.reshape(*lead, span.stop - span.start)

    def check_keys(self, structured: Mapping[str, Any]) -> None:
        """Raise ValueError unless `structured` has exactly the declared keys."""
        if structured.keys() != self.parts.keys():
            missing = sorted(self.parts.keys() - structured.keys())
            unknown = sorted(structured.keys() - self.parts.keys())
            raise TaskError(
                f"The {self.what} must have exactly the parts {list(self.parts)}: missing {missing}, unknown {unknown}."
            )


class FlattenedSpaces:
    """The spaces of an environment that declares their parts: flat for learners, structured for people."""

    alphabetical: ClassVar[bool] = True
    """Whether the parts lie in the flat arrays in alphabetical order of their keys, not as they are declared."""
    own_attributes: ClassVar[frozenset[str]] = frozenset(
        {"observation_layout", "action_layout", "observation_space", "action_space"}
    )
    """See `MochiEnv.own_attributes`."""

    def _observation_parts(self) -> Mapping[str, spaces.Box]:
        """Boxes by key, flattened to `observation_space` in alphabetical order of the keys (see `alphabetical`)."""
        raise MissingHookError.of(self, "_observation_parts()")

    def _action_parts(self) -> Mapping[str, spaces.Box]:
        """Boxes by key, flattened to `action_space` in alphabetical order of the keys (see `alphabetical`)."""
        raise MissingHookError.of(self, "_action_parts()")

    @cached_property
    def observation_layout(self) -> FlatSpace:
        """The observation's parts and where they lie in the flat array."""
        return FlatSpace(self._observation_parts(), "observation", alphabetical=self.alphabetical)

    @cached_property
    def action_layout(self) -> FlatSpace:
        """The action's parts and where they lie in the flat array."""
        return FlatSpace(self._action_parts(), "action", alphabetical=self.alphabetical)

    @cached_property
    def observation_space(self) -> spaces.Box:
        """The observation's parts as one flat Box."""
        return self.observation_layout.box()

    @cached_property
    def action_space(self) -> spaces.Box:
        """The action's parts as one flat Box."""
        return self.action_layout.box()

    @property
    def structured_observation_space(self) -> spaces.Dict:
        """The observation's parts as a Dict space."""
        return self.observation_layout.dict()

    @property
    def structured_action_space(self) -> spaces.Dict:
        """The action's parts as a Dict space."""
        return self.action_layout.dict()

    def to_structured_observation(self, observation: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Views of a flat observation (..., size) by key."""
        return self.observation_layout.split(observation)

    def to_flat_observation(self, observation: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """A structured observation as a new flat array (..., size)."""
        return self.observation_layout.join(observation)

    def to_structured_action(self, action: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Views of a flat action (..., size) by key."""
        return self.action_layout.split(action)

    def to_flat_action(self, action: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """A structured action as a new flat array (..., size)."""
        return self.action_layout.join(action)
