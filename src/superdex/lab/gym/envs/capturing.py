"""What decides the future of a batch's environments, out of it and back into it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from superdex.lab.gym.envs.env_state import Section, SectionKey
from superdex.lab.gym.envs.task_batch import TaskBatch

if TYPE_CHECKING:
    from superdex.lab.gym.envs.mochi_env import MochiEnv

__all__ = ["capture", "restore", "section_key"]

# These change how an environment is run and shown, but nothing in its rollout.
_INDIFFERENT = (
    *("use_shared_scenes", "num_worker_threads"),
    *("render_mode", "render_size", "render_quality", "render_camera"),
)

_WORD = (1 << 64) - 1
_TASK, _DERIVED, _MODEL = "task.", "derived.", "model."


def section_key(env: MochiEnv) -> SectionKey:
    """What another environment must share with `env` to continue from its state."""
    kind = type(env)
    cfg = {name: value for name, value in asdict(env.cfg).items() if name not in _INDIFFERENT}
    return SectionKey(f"{kind.__module__}:{kind.__qualname__}", json.dumps(cfg, sort_keys=True), env.scene.structure)


def capture(batch: TaskBatch) -> Section:
    """The states of all environments of a batch.

    Raises:
        RuntimeError: if the scene's state cannot be captured (ROM actors, sleep).
        TypeError: if an environment's random generator is not NumPy's default one.
    """
    physics = batch.physics
    physics.scene.require_capturable()
    arrays: dict[str, NDArray[Any]] = {
        "state": physics.state.copy(),
        "step_count": physics.step_count.copy(),
        "episode_steps": batch.episode_steps.copy(),
        "generator": np.array([_pack_generator(member.np_random) for member in batch.members], np.uint64),
        "seed": np.array([str(member.np_random_seed) for member in batch.members]),
    }
    arrays.update((_TASK + name, state.copy()) for name, state in batch.task_state.items())
    arrays.update((_DERIVED + name, physics.field(name).copy()) for name in batch.task.derived_fields)
    arrays.update((_MODEL + name, physics.parameter(name).copy()) for name in batch.task.randomized_fields)
    return Section(section_key(batch.task), np.arange(len(batch.members)), arrays)


def restore(batch: TaskBatch, section: Section) -> None:
    """Put back what `capture` gave for environments of the same key and number."""
    arrays, physics = section.arrays, batch.physics
    physics.reset()
    physics.state[:] = arrays["state"]
    physics.step_count[:] = arrays["step_count"]
    for name in batch.task.randomized_fields:
        physics.parameter(name)[:] = arrays[_MODEL + name]
    physics.apply_parameters()
    batch.episode_steps[:] = arrays["episode_steps"]
    for name, state in batch.task_state.items():
        state[:] = arrays[_TASK + name]
    for name in batch.task.derived_fields:
        physics.put_derived(name, arrays[_DERIVED + name])
    for member, words, seed in zip(batch.members, arrays["generator"].tolist(), arrays["seed"].tolist(), strict=True):
        member._np_random, member._np_random_seed = _unpack_generator(words), int(seed)


def _pack_generator(generator: np.random.Generator) -> list[int]:
    """The six words that make up a PCG64 generator: state, increment, and half a draw that may be left over."""
    bits = generator.bit_generator
    if not isinstance(bits, np.random.PCG64):
        raise TypeError(
            "Only PCG64 generators can be captured, which Gymnasium makes; an environment's np_random uses"
            f" {type(bits).__name__}."
        )
    inner: Any = bits.state
    state, increment = inner["state"]["state"], inner["state"]["inc"]
    return [state >> 64, state & _WORD, increment >> 64, increment & _WORD, inner["has_uint32"], inner["uinteger"]]


def _unpack_generator(words: list[int]) -> np.random.Generator:
    bits = np.random.PCG64(0)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": words[0] << 64 | words[1], "inc": words[2] << 64 | words[3]},
        "has_uint32": words[4],
        "uinteger": words[5],
    }
    return np.random.Generator(bits)
