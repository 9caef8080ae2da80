"""What every environment's configuration holds, and how it is checked.

A task derives its own frozen, keyword-only dataclass from `MochiEnvCfg`, with a
docstring (unit included) under each field:

    @dataclass(frozen=True, kw_only=True)
    class CartPoleCfg(MochiEnvCfg):
        control_frequency: float = 25
        use_gravity: bool = True
        \"\"\"Whether gravity acts.\"\"\"

Environments of equal configuration can step as one batch, so fields hold plain
comparable values: numbers, strings, booleans, None, and tuples of these. A task
whose model decides the rates derives from `TaskCfg`.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from numbers import Integral, Real
from typing import Any, Self

import numpy as np

from superdex.lab.gym.envs.errors import MissingHookError
from superdex.physics.rendering import RenderQuality, check_quality, check_size

__all__ = ["MochiEnvCfg", "TaskCfg"]


@dataclass(frozen=True, kw_only=True)
class TaskCfg:
    """Configuration common to all environments, whatever decides their rates.

    A subclass says how long a physics step is and how many make up a control step.
    """

    steps_per_episode: int = -1
    """Control steps after which an episode is truncated; -1 for no limit."""
    reset_noise_scale: float = 0.0
    """Size of the noise on the initial state: uniform in +- this on positions, normal times this on velocities."""
    use_shared_scenes: bool = True
    """Whether environments of one class and scene name share one compiled model in a process."""
    num_worker_threads: int = 0
    """Native threads of a batch of these environments, where the vector environment's own argument leaves it open.

    That is `num_threads` of `SceneVectorEnv`, `num_threads_per_worker` of those with workers: what is given there
    counts. 0 leaves it open here, too: one per logical CPU in `SceneVectorEnv`, one in each worker.
    """
    render_mode: str | None = None
    """How `render` shows the environment; one of the class's `metadata["render_modes"]`, or None."""
    render_size: tuple[int, int] | None = None
    """Width and height of rendered frames [pixels], or None for the class's `frame_size`."""
    render_quality: RenderQuality = "fast"
    """Frames "fast", without shadows and smooth edges, or "nice", which takes 6 to 20 times longer on a CPU."""
    render_camera: str | None = None
    """A camera of the model by its name, or None for the class's `view`."""

    def __post_init__(self) -> None:
        for field, kind in _field_types(type(self)).items():
            object.__setattr__(self, field, _checked(field, getattr(self, field), kind))
        if self.steps_per_episode != -1 and self.steps_per_episode < 1:
            raise ValueError(f"steps_per_episode must be at least 1, or -1 for no limit, got {self.steps_per_episode}.")
        if not 0 <= self.reset_noise_scale < float("inf"):
            raise ValueError(f"reset_noise_scale must be finite and not negative, got {self.reset_noise_scale}.")
        if self.num_worker_threads < 0:
            raise ValueError(f"num_worker_threads must be 0 (automatic) or more, got {self.num_worker_threads}.")
        check_quality(self.render_quality)
        if self.render_size is not None:
            check_size(self.render_size)

    @property
    def num_substeps(self) -> int:
        """Physics steps per control step."""
        raise MissingHookError.of(self, "num_substeps")

    @property
    def timestep(self) -> float | None:
        """Duration of a physics step [s], or None for what the model says."""
        return None

    @property
    def rate_suffix(self) -> str:
        """What a scene's name says of `timestep`; empty where the model decides."""
        return ""

    @classmethod
    def make(cls, cfg: Self | Mapping[str, Any] | None = None, **overrides: Any) -> Self:
        """A configuration from one of this class, a mapping of field values, or nothing, with overrides.

        Raises:
            TypeError: if `cfg` is something else, or a value is of the wrong type.
            ValueError: if a key is unknown (the message names the nearest known one) or a value is impossible.
        """
        if cfg is None or isinstance(cfg, Mapping):
            values = {**(cfg or {}), **overrides}
            cls.check_fields(values)
            return cls(**values)
        if not isinstance(cfg, cls):
            raise TypeError(f"The configuration must be a {cls.__name__} or a dict of its fields, got {cfg!r}.")
        cls.check_fields(overrides)
        return replace(cfg, **overrides) if overrides else cfg

    @classmethod
    def check_fields(cls, names: Iterable[str]) -> None:
        """Raise ValueError, with the nearest known one, if a name is not that of a field."""
        known = _field_types(cls)
        for key in names:
            if key not in known:
                nearest = difflib.get_close_matches(str(key), known, n=1, cutoff=0.0)[0]
                raise ValueError(
                    f"{cls.__name__} has no field {key!r}. Did you mean {nearest!r}?"
                    f" Its fields are: {', '.join(known)}."
                )


@dataclass(frozen=True, kw_only=True)
class MochiEnvCfg(TaskCfg):
    """Configuration of an environment whose rates are chosen."""

    control_frequency: float = 20
    """Calls of `step` per simulated second [Hz]."""
    simulation_frequency: float = 100
    """Physics steps per simulated second [Hz]; a multiple of `control_frequency`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("control_frequency", "simulation_frequency"):
            if not 0 < getattr(self, field) < float("inf"):
                raise ValueError(f"{field} must be positive and finite, got {getattr(self, field):g} Hz.")
        ratio = self.simulation_frequency / self.control_frequency
        if round(ratio) < 1 or abs(ratio - round(ratio)) > 1e-9 * ratio:
            raise ValueError(
                f"simulation_frequency ({self.simulation_frequency:g} Hz) must be a multiple of control_frequency"
                f" ({self.control_frequency:g} Hz), so that a control step is a whole number of physics steps."
            )

    @property
    def num_substeps(self) -> int:
        """Physics steps per control step."""
        return round(self.simulation_frequency / self.control_frequency)

    @property
    def timestep(self) -> float:
        """Duration of a physics step [s]."""
        return 1 / self.simulation_frequency

    @property
    def rate_suffix(self) -> str:
        """The simulation frequency, for a scene's name."""
        return f" at {str(float(self.simulation_frequency)).removesuffix('.0')} Hz"


@cache
def _field_types(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _checked(field: str, value: Any, kind: Any) -> Any:
    """`value` as a plain value of type `kind`; only the types that the module docstring names are checked."""
    options = typing.get_args(kind) if typing.get_origin(kind) in (types.UnionType, typing.Union) else (kind,)
    value = _plain(value, tuples=any(typing.get_origin(option) is tuple for option in options))
    if not any(_fits(value, option) for option in options):
        wanted = " or ".join(str(o) if typing.get_origin(o) else getattr(o, "__name__", str(o)) for o in options)
        raise TypeError(f"{field} must be {wanted}, got {value!r} of type {type(value).__name__}.")
    if not _is_plain(value):
        raise TypeError(
            f"{field} must hold plain values, which can be compared and saved: numbers, strings, booleans, None, and"
            f" tuples of these (declare a tuple for what would be a list or an array), got {type(value).__name__}."
        )
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and float in options and int not in options else value  # 1 and 1.0 are one value


def _plain(value: Any, tuples: bool) -> Any:
    """`value` without NumPy's types, and with sequences as tuples where the field holds some."""
    if isinstance(value, np.generic):
        return value.item()
    if tuples and isinstance(value, list | tuple | np.ndarray):
        return tuple(_plain(item, tuples) for item in value)
    return value


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _fits(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    if kind is None or kind is type(None):
        return value is None
    if typing.get_origin(kind) is tuple:
        items = typing.get_args(kind)
        if not isinstance(value, tuple):
            return False
        if len(items) == 2 and items[1] is Ellipsis:
            return all(_fits(item, items[0]) for item in value)
        return len(value) == len(items) and all(map(_fits, value, items))
    return isinstance(value, kind) if isinstance(kind, type) else True
