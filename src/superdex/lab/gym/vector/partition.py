"""Which environments step natively, and how several backends work as one.

`make_backend` looks at environments that their factories made, in whatever way,
and puts those of one class, configuration and scene into a native batch. All
others step one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from numpy.typing import NDArray

from superdex.lab.gym.envs.env_state import Section, SectionKey
from superdex.lab.gym.envs.mochi_env import MochiEnv
from superdex.lab.gym.vector.attributes import run_all, same_attributes
from superdex.lab.gym.vector.backend import Backend, InnerBackend, StepBuffers
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.infos import extend, relocate
from superdex.lab.gym.vector.native import NativeBackend
from superdex.lab.gym.vector.sequential import SequentialBackend
from superdex.physics import Rows

__all__ = ["make_backend"]

# `gym.make` adds these by itself. They check calls, which a vector environment checks as well, and change nothing.
_TRANSPARENT_WRAPPERS = (OrderEnforcing, PassiveEnvChecker)


def make_backend(
    envs: list[gymnasium.Env], num_threads: int, automatic: int = 0
) -> tuple[Backend, tuple[InnerBackend, ...]]:
    """One backend for all of `envs`, and how it steps each of them.

    Args:
        envs: the environments of one process, in order.
        num_threads: native threads of each batch; 0 for its configuration's `num_worker_threads`.
        automatic: native threads if that is 0, too; 0 for one per logical CPU.

    Returns:
        The backend, and its parts with indices into `envs`.
    """
    groups: list[list[int]] = []
    one_by_one: dict[str, list[int]] = {}
    for index, env in enumerate(envs):
        obstacle = _obstacle(env)
        if obstacle is not None:
            one_by_one.setdefault(obstacle, []).append(index)
            continue
        for group in groups:
            if _batchable(_inner(env), _inner(envs[group[0]])):
                group.append(index)
                break
        else:
            groups.append([index])
    parts: list[tuple[list[int], Backend]] = []
    report = []
    for group in groups:
        members = [_inner(envs[index]) for index in group]
        parts.append((group, NativeBackend(members, num_threads, automatic)))
        reason = f"{len(group)} x {type(members[0]).__name__} of one configuration on scene {members[0].scene.name!r}"
        report.append(InnerBackend("native", tuple(group), reason))
    report += [InnerBackend("sequential", tuple(indices), reason) for reason, indices in one_by_one.items()]
    rest = sorted(index for indices in one_by_one.values() for index in indices)
    if rest:
        parts.append((rest, SequentialBackend([_unwrapped_task(envs[index]) for index in rest], rest)))
    if len(parts) == 1:
        return parts[0][1], tuple(report)
    return PartitionedBackend(parts), tuple(report)


class PartitionedBackend:
    """Several backends as one, each with some of the environments.

    Args:
        parts: backends with the sorted indices of their environments; together all of them.
    """

    def __init__(self, parts: Sequence[tuple[Sequence[int], Backend]]) -> None:
        self._parts = [(np.array(indices, np.int64), backend) for indices, backend in parts]
        self.num_envs = sum(backend.num_envs for _, backend in self._parts)
        by_index = {
            int(index): env
            for indices, backend in self._parts
            for index, env in zip(indices, backend.envs, strict=True)
        }
        self.distinct = sorted(int(indices[row]) for indices, backend in self._parts for row in backend.distinct)
        self.envs = [by_index[index] for index in range(self.num_envs)]

    def reset(
        self,
        rows: Rows,
        seeds: Sequence[int | None] | None,
        options: dict[str, Any] | None,
        observation: np.ndarray,
    ) -> Columns:
        """See `Backend.reset`."""
        columns: Columns = {}
        for indices, backend, own in self._in_play(rows):
            part = observation[indices]
            chosen = indices if own is None else indices[own]
            positions = chosen if rows is None else np.searchsorted(rows, chosen)
            own_seeds = None if seeds is None else [seeds[position] for position in positions]
            extend(columns, relocate(backend.reset(own, own_seeds, options, part), indices))
            observation[indices] = part
        return columns

    def step(self, rows: Rows, actions: np.ndarray, out: StepBuffers) -> Columns:
        """See `Backend.step`."""
        columns: Columns = {}
        for indices, backend, own in self._in_play(rows):
            part = StepBuffers(
                out.observation[indices], out.reward[indices], out.terminated[indices], out.truncated[indices]
            )
            extend(columns, relocate(backend.step(own, actions[indices], part), indices))
            out.observation[indices] = part.observation
            out.reward[indices] = part.reward
            out.terminated[indices] = part.terminated
            out.truncated[indices] = part.truncated
        return columns

    def final_observations(self, rows: NDArray[np.int64], observation: np.ndarray) -> list[Any]:
        """See `Backend.final_observations`."""
        finals: dict[int, Any] = {}
        for indices, backend, own in self._in_play(rows):
            chosen = np.arange(len(indices)) if own is None else own
            values = backend.final_observations(chosen, observation[indices])
            finals.update(zip(indices[chosen].tolist(), values, strict=True))
        return [finals[row] for row in rows.tolist()]

    def state_keys(self) -> list[SectionKey]:
        """See `Backend.state_keys`."""
        keys = {}
        for indices, backend in self._parts:
            keys.update(zip(indices.tolist(), backend.state_keys(), strict=True))
        return [keys[index] for index in range(self.num_envs)]

    def capture(self) -> list[Section]:
        """See `Backend.capture`."""
        return [
            replace(section, environments=indices[section.environments])
            for indices, backend in self._parts
            for section in backend.capture()
        ]

    def restore(self, sections: Sequence[Section], observation: np.ndarray) -> None:
        """See `Backend.restore`."""
        for indices, backend in self._parts:
            own = []
            for section in sections:
                positions = np.flatnonzero(np.isin(section.environments, indices))
                if positions.size:
                    rows = np.searchsorted(indices, section.environments[positions])
                    own.append(section.take(positions, rows))
            backend.restore(own, observation[indices])

    def close(self) -> None:
        """Close all parts; the first error is raised once all were closed."""
        run_all(backend.close for _, backend in self._parts)

    def _in_play(self, rows: Rows) -> list[tuple[NDArray[np.int64], Backend, Rows]]:
        """The parts with rows in play: their indices, backend, and own rows."""
        if rows is None:
            return [(indices, backend, None) for indices, backend in self._parts]
        wanted = np.zeros(self.num_envs, np.bool_)
        wanted[rows] = True
        chosen = [(indices, backend, np.flatnonzero(wanted[indices])) for indices, backend in self._parts]
        return [
            (indices, backend, None if own.size == len(indices) else own)
            for indices, backend, own in chosen
            if own.size
        ]


def _inner(env: gymnasium.Env) -> Any:
    """The environment without the wrappers that `gym.make` adds by itself."""
    while type(env) in _TRANSPARENT_WRAPPERS:
        env = env.env  # type: ignore[attr-defined]
    return env


def _unwrapped_task(env: gymnasium.Env) -> gymnasium.Env:
    return _inner(env) if isinstance(_inner(env), MochiEnv) else env


def _obstacle(env: gymnasium.Env) -> str | None:
    """Why an environment cannot be part of a native batch, or None if it can."""
    inner = _inner(env)
    if isinstance(inner, gymnasium.Wrapper):
        return f"wrapped in {type(inner).__name__}"
    if not isinstance(inner, MochiEnv):
        return f"{type(inner).__name__} is not a MochiEnv"
    name = type(inner).__name__
    if not inner.vectorized:
        return f"{name} sets vectorized = False"
    for method in ("reset", "step"):
        if getattr(type(inner), method) is not getattr(MochiEnv, method):
            return f"{name} overrides {method}()"
    if not inner.shares_scene:
        return f"{name} has a scene of its own"
    return None


def _batchable(env: MochiEnv, other: MochiEnv) -> bool:
    if type(env) is not type(other) or env.scene is not other.scene:
        return False
    return (env.cfg is other.cfg or env.cfg == other.cfg) and same_attributes(env, other)
