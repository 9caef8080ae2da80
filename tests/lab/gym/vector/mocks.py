"""Environments for tests of the vector layer. Workers import this module too."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from superdex.lab.gym.vector.channel import Channel

REWARDS: dict[str, Callable[[float], Any]] = {
    "float": float,
    "int": lambda x: round(10 * x),
    "float32": np.float32,
    "float64": np.float64,
    "0-d": lambda x: np.array(x, dtype=np.float32),
}

INFOS: dict[str, Callable[[np.random.Generator], Any]] = {
    "int": lambda rng: int(rng.integers(-1000, 1000)),
    "float": lambda rng: float(rng.normal()),
    "bool": lambda rng: bool(rng.integers(2)),
    "float32": lambda rng: np.float32(rng.normal()),
    "int16": lambda rng: np.int16(rng.integers(-1000, 1000)),
    "complex64": lambda rng: np.complex64(rng.normal()),
    "numpy_bool": lambda rng: np.bool_(rng.integers(2)),
    "str": lambda rng: f"text {rng.integers(3)}",
    "str_or_none": lambda rng: [None, "fell over", "left the track"][rng.integers(3)],
    "none": lambda rng: None,
    "array": lambda rng: rng.normal(size=(2, 3)).astype(np.float32),
    "big_endian": lambda rng: rng.normal(size=2).astype(">f4"),
    "empty_array": lambda rng: np.zeros((0, 2)),
    "0-d": lambda rng: np.array(rng.normal()),
    "str_array": lambda rng: np.array(["abc", "de"], dtype="<U3"),
    "object_array": lambda rng: np.array([None, int(rng.integers(9))], dtype=object),
    "list": lambda rng: [int(rng.integers(9)), "x"],
    "tuple": lambda rng: (1, [int(rng.integers(9))]),
    "object": lambda rng: Fraction(int(rng.integers(9)), 7),
    "huge_int_or_str": lambda rng: ["text", None, {1, 2}][rng.integers(3)],
    "empty_dict": lambda rng: {},
    "nested": lambda rng: {
        "x": float(rng.normal()),
        "rare": {"y": int(rng.integers(9)), "final_obs": rng.normal(size=2)},
        **({"z": rng.normal(size=3)} if rng.random() < 0.5 else {}),
    },
    "final_obs": lambda rng: rng.normal(size=2),
}
"""What the info under each key may be; the kinds for which Gymnasium's own merge is right."""


@dataclass(frozen=True)
class MockSpec:
    """What a `MockEnv` is like."""

    observation_shape: tuple[int, ...] = (3,)
    observation_dtype: str = "float32"
    raw_dtype: str = "float32"
    """Of the observations that it returns, which may be wider than the space's."""
    action_shape: tuple[int, ...] = (2,)
    action_dtype: str = "float32"
    reward: str = "float"
    infos: tuple[str, ...] = ("float",)
    info_chance: float = 0.7
    end_chance: float = 0.1
    numpy_flags: bool = False

    @property
    def spaces(self) -> tuple[Box, Box]:
        return _box(self.observation_shape, self.observation_dtype), _box(self.action_shape, self.action_dtype)


def _box(shape: tuple[int, ...], dtype: str) -> Box:
    low, high = (0, 255) if dtype == "uint8" else (-100, 100)
    return Box(low, high, shape, np.dtype(dtype))  # type: ignore[arg-type]


class MockEnv(gymnasium.Env):
    """Everything that it returns depends on its generator, its actions and how often it was stepped."""

    def __init__(self, spec: MockSpec) -> None:
        self.mock = spec
        self.observation_space, self.action_space = spec.spaces
        self.steps = 0
        self.total = 0.0
        self.options: dict[str, Any] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.total = 0.0
        self.options = options
        return self._observation(), self._infos()

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        assert np.shape(action) == self.mock.action_shape
        assert np.asarray(action).dtype == self.mock.action_dtype
        self.steps += 1
        self.total += float(np.sum(action))
        flag = np.bool_ if self.mock.numpy_flags else bool
        terminated, truncated = (flag(self.np_random.random() < self.mock.end_chance) for _ in range(2))
        reward = REWARDS[self.mock.reward](self.np_random.normal() + self.total)
        return self._observation(), reward, terminated, truncated, self._infos()

    def _observation(self) -> np.ndarray:
        values = 40 * self.np_random.random(self.mock.observation_shape) + self.steps + (self.total % 7)
        return np.asarray(values).astype(self.mock.raw_dtype)

    def _infos(self) -> dict[str, Any]:
        infos = {
            key: INFOS[key](self.np_random)
            for key in self.mock.infos
            if self.np_random.random() < self.mock.info_chance
        }
        if self.options is not None:
            infos["options"] = sorted(self.options)
        return infos


class CountingEnv(gymnasium.Env):
    """Observes the number of its steps and the first draw of its episode; ends after `length` steps."""

    metadata = {"render_modes": ["rgb_array"], "kept": "as it is"}  # noqa: RUF012

    def __init__(self, length: int = 3, action_dtype: str = "float32") -> None:
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = Box(-1, 1, (2,), np.dtype(action_dtype))  # type: ignore[arg-type]
        self.render_mode = "rgb_array"
        self.length = length
        self.steps = 0
        self.label = "fresh"
        self.last_action: np.ndarray | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.draw = self.np_random.random()
        if options is not None:
            options.pop("taken", None)
            options["left by"] = id(self)
        return self._observation(), {"steps": 0}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.last_action = action
        ended = self.steps >= self.length
        reason = "Counted to the end" if ended else None
        return self._observation(), float(self.steps), ended, False, {"steps": self.steps, "terminated_reason": reason}

    def render(self) -> np.ndarray:  # type: ignore[override]
        return np.full((1, 1, 3), self.steps, dtype=np.uint8)

    def _observation(self) -> np.ndarray:
        return np.array([self.steps, self.draw])

    def process_id(self) -> int:
        return os.getpid()

    def raises(self, message: str) -> None:
        raise KeyError(message)


class ReusingEnv(CountingEnv):
    """Returns the same observation buffer and the same info dict every time."""

    def __init__(self, length: int = 3) -> None:
        super().__init__(length)
        self.buffer = np.zeros(2)
        self.info: dict[str, Any] = {"array": np.zeros(2), "nested": {"list": [0]}}

    def _observation(self) -> np.ndarray:
        self.buffer[:] = self.steps, self.draw
        return self.buffer

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, _ = super().reset(seed=seed)
        return observation, self._update()

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, self._update()

    def _update(self) -> dict[str, Any]:
        self.info["array"][:] = self.steps
        self.info["nested"]["list"][0] = self.steps
        return self.info


class InfoEnv(CountingEnv):
    """Returns the info it was made with, at every reset."""

    def __init__(self, info: dict[str, Any]) -> None:
        super().__init__()
        self.info = info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=seed)[0], self.info


class UnfriendlyError(Exception):
    """Can be pickled, but not rebuilt."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)


class FaultyEnv(CountingEnv):
    """Does something bad at a given moment: `fault` is one of the methods below."""

    def __init__(self, fault: str = "", when: str = "step") -> None:
        super().__init__(length=1000)
        self.fault, self.when = fault, when
        self._at("constructor")

    def _at(self, moment: str) -> None:
        if self.fault and self.when == moment:
            getattr(self, self.fault)()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._at("reset")
        return super().reset(seed=seed)

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.steps == 4:
            self._at("step")
        return super().step(action)

    def close(self) -> None:
        self._at("close")

    def value_error(self) -> None:
        raise ValueError("bad joint 3")

    def unfriendly(self) -> None:
        raise UnfriendlyError(3, "no way back")

    def kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def exit(self) -> None:
        os._exit(7)

    def system_exit(self) -> None:
        sys.exit(3)

    def crash(self) -> None:
        ctypes.string_at(0)

    def sleep(self) -> None:
        time.sleep(1000)

    def spin(self) -> None:
        """Busy in native code that neither releases the GIL nor looks for signals."""
        sum(range(10**15))

    def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def half_a_reply(self) -> None:
        """Cut off in the middle of a message."""
        (channel,) = (each for each in gc.get_objects() if isinstance(each, Channel))
        os.write(channel.fileno(), (1000).to_bytes(8, "little") + b"then nothing")
        time.sleep(1000)


class OnceFaultyEnv(FaultyEnv):
    """Does it once: not if `marker` exists, which it creates."""

    def __init__(self, marker: str, fault: str = "", when: str = "step") -> None:
        self.marker = marker
        super().__init__(fault, when)

    def _at(self, moment: str) -> None:
        if self.fault and self.when == moment and not os.path.exists(self.marker):
            with open(self.marker, "w"):
                pass
            super()._at(moment)

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        result = super().step(action)
        self._at("after step")
        return result

    def called(self) -> int:
        self._at("call")
        return self.steps
