"""Workers that died are replaced, and the rest of the batch does not notice.

What dies with a worker is the episodes of its environments. So the step in which
that is noticed returns for them what it would if a limit had ended them: they are
`truncated`, `truncated_reason` is "Worker restarted", the reward is 0 and the last
observation is the last one that the caller was given. The new worker makes the
environments again by their factories, repeats the `set_attr`s, and resets them.
From there the autoreset mode decides, as after every other end of an episode.

**Seeds.** A replaced environment cannot go on where its generator was. It gets a
seed that depends on nothing but the last seed it was reset with (or the state
restored into it) and on how often it was replaced since: the same run with the
same deaths repeats to the bit, whatever the split.

**Nothing torn.** A worker writes results straight into the batch's shared memory,
and may die half-way. Its rows are written anew by the caller, from a copy of the
last observations, after the process is known to have ended.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import cloudpickle
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.envs.env_state import EnvState
from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.checks import refuse_space, same_space
from superdex.lab.gym.vector.columns import Columns, NestedColumn, ObjectColumn
from superdex.lab.gym.vector.infos import FINAL_OBS, extend
from superdex.lab.gym.vector.requests import Description, reset_request

__all__ = ["RESTARTED", "Pool", "Receiver", "Recovery", "RestartSeeds"]

RESTARTED = "Worker restarted"
"""The `truncated_reason` of environments whose worker died."""

_NO_OPTIONS = cloudpickle.dumps(None)


class Pool(Protocol):
    """The workers of a vector environment, seen from the caller; see `WorkerPool`, which has them as processes."""

    closed: bool
    """Whether `interrupt` was called, be it because the workers are to end."""
    settled: bool
    """Whether every request sent has been answered, be it by an exception or by a death that was allowed."""
    max_restarts: int
    """How often each worker may be started again."""
    restarts: list[int]
    """How often each worker was started again."""

    def restart(self, index: int) -> None:
        """Start a dead worker again; `greet` it next."""
        ...

    def greet(self, indices: Iterable[int] | None = None) -> list[bytes | None]:
        """What newly started workers say once their environments are made; as `exchange`."""
        ...

    def exchange(self, requests: Sequence[bytes | None], fail_fast: bool = True) -> list[bytes | None]:
        """Each worker's reply to its request; None for those without a request, and for those that died.

        Results of a step or reset are in the batch once this returns.
        """
        ...

    def interrupt(self) -> None:
        """From now on the other methods raise ClosedEnvironmentError, even where a thread waits in one; it may go on
        for a second, or as long as a worker takes to start or to be killed."""
        ...


class Receiver(Protocol):
    """The caller's end of what a worker tells in columns."""

    def receive(self, message: bytes) -> Columns:
        """The columns of a reply."""
        ...


class RestartSeeds:
    """The seeds for environments that are made again, one stream for each environment."""

    def __init__(self, num_envs: int) -> None:
        self._roots: list[int | None] = [None] * num_envs
        self._drawn = [0] * num_envs

    def reseed(self, seeds: Sequence[int | None] | None) -> None:
        """Begin anew where a seed was given."""
        for environment, seed in enumerate(seeds or ()):
            if seed is not None:
                self._roots[environment], self._drawn[environment] = seed, 0

    def restore(self, state: EnvState) -> None:
        """Begin anew from the environments' states."""
        roots: list[int | None] = [None] * state.num_envs
        for section in state.sections:
            for position, environment in enumerate(section.environments.tolist()):
                digest = hashlib.blake2b(digest_size=8)
                for name in sorted(section.arrays):
                    digest.update(section.arrays[name][position].tobytes())
                roots[environment] = int.from_bytes(digest.digest(), "little")
        self.reseed(roots)

    def draw(self, environment: int) -> int:
        """The next seed (31 bits, which every environment takes); from the system if no seed was ever given."""
        root, number = self._roots[environment], self._drawn[environment]
        self._drawn[environment] += 1
        sequence = np.random.SeedSequence(root, spawn_key=() if root is None else (number,))
        return int(sequence.generate_state(1)[0]) >> 1


class Recovery:
    """What the caller remembers of a batch in order to replace workers."""

    def __init__(
        self,
        pool: Pool,
        rows: Sequence[slice],
        mode: AutoresetMode,
        spaces: tuple[Box, Box],
        attach: bytes | None,
        out: StepBuffers,
        receivers: Sequence[Receiver],
    ) -> None:
        """`attach`: the request by which a worker gets at the batch, if it needs one; `out` has the batch's results."""
        self._pool = pool
        self._rows = rows
        self._mode = mode
        self._spaces = spaces
        self._attach = attach
        self._out = out
        self._receivers = receivers
        self._known = out.observation.copy()
        """The last observations that the caller was given."""
        self._seeds = RestartSeeds(len(self._known))
        self._assigned: dict[str, dict[int, bytes]] = {}
        """The last SET request of each attribute, per worker."""
        self._ended: set[int] = set()
        """Workers whose environments' episodes ended with their predecessor, which no step has told so far."""

    def lost(self, replies: Sequence[bytes | None]) -> set[int]:
        """Workers whose environments' episodes ended with a death that the caller was not told of so far."""
        return self._ended | {worker for worker, reply in enumerate(replies) if reply is None}

    def step_requests(self, request: bytes) -> list[bytes | None]:
        """`request` for each worker, but none for those whose episodes ended in between."""
        return [None if worker in self._ended else request for worker in range(len(self._rows))]

    def finish_step(self, replies: Sequence[bytes | None]) -> Columns:
        """Replace the workers that did not reply to a step; the infos of their environments."""
        lost = self.lost(replies)
        columns: Columns = {}
        if lost:
            resets = self._reset_anew(lost)
            if self._mode is AutoresetMode.SAME_STEP:
                columns = resets
            for worker in sorted(lost):
                self._end_episodes(self._rows[worker], columns)
            self._ended = set()
        self.remember()
        return columns

    def _end_episodes(self, rows: slice, columns: Columns) -> None:
        out, last = self._out, self._known[rows]
        out.reward[rows] = 0.0
        out.terminated[rows] = False
        out.truncated[rows] = True
        ended: Columns = {"truncated_reason": [ObjectColumn(rows, [RESTARTED] * len(last))]}
        if self._mode is AutoresetMode.SAME_STEP:
            finals = [np.array(observation) for observation in last]
            ended = {FINAL_OBS: [ObjectColumn(rows, finals)], "final_info": [NestedColumn(rows, ended)]}
        else:
            out.observation[rows] = last
        extend(columns, ended)

    def finish_reset(
        self, replies: list[bytes | None], seeds: Sequence[int | None] | None, options: bytes
    ) -> list[bytes | None]:
        """Replace the workers that did not reply to a reset, and reset them with the same seeds."""
        self._seeds.reseed(seeds)
        return self.repeat(replies, seeds, lambda filled: reset_request(filled, options))

    def repeat(
        self,
        replies: list[bytes | None],
        seeds: Sequence[int | None] | None,
        request: Callable[[list[int | None]], bytes],
    ) -> list[bytes | None]:
        """Replace the workers that did not reply, and send them `request`: for given seeds, one that resets first.

        The caller takes what this returns for new episodes of the environments of `lost(replies)`.
        """
        dead = [worker for worker, reply in enumerate(replies) if reply is None]
        requests = {worker: request(self._filled(worker, seeds)) for worker in dead}
        answers = self._replace(dead, requests)
        self._ended = set()
        self.remember()
        return [answers.get(worker, reply) for worker, reply in enumerate(replies)]

    def replace(self, dead: Iterable[int], ready: bool) -> None:
        """Replace workers that died outside of a step; if `ready`, reset them, and let the next step tell."""
        dead = set(dead)
        if ready:
            self._ended |= dead
            self._reset_anew(dead)
        else:
            self._replace(dead, {})

    def remember(self) -> None:
        """The batch holds what the caller is given next."""
        self._known[...] = self._out.observation

    def assigned(self, name: str, requests: Sequence[bytes]) -> None:
        """Every environment has accepted a value for its attribute `name`."""
        self._assigned.pop(name, None)
        self._assigned[name] = dict(enumerate(requests))

    def restored(self, state: EnvState) -> None:
        """The environments continue from `state`."""
        self._seeds.restore(state)
        self._known[...] = state.observation
        self._ended = set()

    def _filled(self, worker: int, seeds: Sequence[int | None] | None) -> list[int | None]:
        """The worker's seeds, where None cannot mean to go on with a generator, which is gone."""
        rows = self._rows[worker]
        given = [None] * (rows.stop - rows.start) if seeds is None else seeds[rows]
        return [self._seeds.draw(rows.start + i) if seed is None else seed for i, seed in enumerate(given)]

    def _reset_anew(self, workers: set[int]) -> Columns:
        """Reset the environments of `workers`, replaced where they are dead; the infos of the resets."""
        pending = self._mode is not AutoresetMode.SAME_STEP
        requests = {worker: reset_request(self._filled(worker, None), _NO_OPTIONS, pending) for worker in workers}
        replies = self._pool.exchange([requests.get(worker) for worker in range(len(self._rows))])
        alive = {worker: reply for worker in workers if (reply := replies[worker]) is not None}
        columns: Columns = {}
        for worker, reply in sorted((alive | self._replace(workers - alive.keys(), requests)).items()):
            extend(columns, self._receivers[worker].receive(reply))
        return columns

    def _replace(self, dead: Iterable[int], requests: dict[int, bytes]) -> dict[int, bytes]:
        """Start dead workers again, as often as it takes and is allowed; their replies to `requests`."""
        dead = set(dead)
        replies: dict[int, bytes] = {}
        while missing := dead - replies.keys():
            for worker in sorted(missing):
                self._pool.restart(worker)
            replies |= self._set_up(missing, requests)
        return replies

    def _set_up(self, workers: set[int], requests: dict[int, bytes]) -> dict[int, bytes]:
        """Bring new workers to where the others are; the last replies of those that live through it."""
        alive = {worker: reply for worker, reply in enumerate(self._pool.greet(workers)) if reply is not None}
        for worker, reply in alive.items():
            description: Description = pickle.loads(reply)
            for kind, space, expected in zip(("observation", "action"), description.spaces, self._spaces, strict=True):
                if not same_space(space, expected):
                    refuse_space(kind, self._rows[worker].start, space, 0, expected)
        attach = {} if self._attach is None else dict.fromkeys(workers, self._attach)
        for step in (attach, *self._assigned.values(), requests):
            due = {worker: step[worker] for worker in alive if worker in step}
            answers = self._pool.exchange([due.get(worker) for worker in range(len(self._rows))])
            for worker in due:
                if (reply := answers[worker]) is None:
                    del alive[worker]
                else:
                    alive[worker] = reply
        return alive
