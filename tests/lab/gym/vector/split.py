"""A vector environment that is split like `HybridVectorEnv`, without processes: cheap enough for many examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.vector.attributes import call_envs, set_env_attr
from superdex.lab.gym.vector.autoreset import Autoreset
from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.base import BatchedVectorEnv
from superdex.lab.gym.vector.checks import check_spaces
from superdex.lab.gym.vector.columns import Columns
from superdex.lab.gym.vector.infos import extend, relocate
from superdex.lab.gym.vector.sequential import SequentialBackend
from superdex.lab.gym.vector.transport import SharedBuffer
from superdex.lab.gym.vector.wire import ColumnReceiver, ColumnSender


class SplitVectorEnv(BatchedVectorEnv):
    """Steps its chunks in turn, and sends their infos over the wire to itself."""

    _supports_reset_mask = True

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gymnasium.Env]],
        num_envs_per_worker: int,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
    ) -> None:
        self.envs = [make() for make in env_fns]
        n, k = len(self.envs), num_envs_per_worker
        first = self.envs[0]
        self._describe(check_spaces(self.envs), n, first.metadata, first.render_mode, autoreset_mode, copy)
        self._buffers = StepBuffers.allocate(self.observation_space, n)
        self._chunks = [slice(start, start + k) for start in range(0, n, k)]
        self._autoresets = [
            Autoreset(SequentialBackend(self.envs[rows]), autoreset_mode, rows.start) for rows in self._chunks
        ]
        arenas = [SharedBuffer() for _ in self._chunks]
        self._ends = [(ColumnSender(arena), ColumnReceiver(arena)) for arena in arenas]

    def _gather(self, chunks: list[Columns]) -> Columns:
        columns: Columns = {}
        for part, rows, (sender, receiver) in zip(chunks, self._chunks, self._ends, strict=True):
            extend(columns, receiver.receive(sender.send(relocate(part, rows))))
        return columns

    def _reset_envs(self, seeds: list[int | None] | None, options: Any, mask: np.ndarray | None) -> Columns:
        chunks = []
        for autoreset, rows in zip(self._autoresets, self._chunks, strict=True):
            own_mask = None if mask is None else mask[rows]
            own_seeds = None if seeds is None else seeds[rows]
            if own_seeds is not None and own_mask is not None:
                own_seeds = [seed for seed, chosen in zip(own_seeds, own_mask, strict=True) if chosen]
            chunks.append(autoreset.reset(own_seeds, options, self._buffers.observation[rows], own_mask))
        return self._gather(chunks)

    def _step_envs(self, actions: np.ndarray) -> Columns:
        out = self._buffers
        return self._gather(
            [
                autoreset.step(
                    actions[rows],
                    StepBuffers(out.observation[rows], out.reward[rows], out.terminated[rows], out.truncated[rows]),
                )
                for autoreset, rows in zip(self._autoresets, self._chunks, strict=True)
            ]
        )

    def _call_envs(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], environments: list[int] | None
    ) -> tuple[Any, ...]:
        return tuple(call_envs(self.envs, name, args, kwargs, environments))

    def _set_env_attr(self, name: str, values: list[Any] | tuple[Any, ...]) -> None:
        set_env_attr(self.envs, name, values)

    def close_extras(self, **kwargs: Any) -> None:
        for autoreset in self._autoresets:
            autoreset.close()
