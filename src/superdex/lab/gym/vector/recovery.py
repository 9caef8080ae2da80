"""Workers that died are replaced, and the rest of the batch does not notice.

What dies with a worker is the episodes of its environments. So the step in which
that is noticed returns for them what it would if a limit had ended them: they are
`truncated`, `truncated_reason` is "Worker restarted", the reward is 0 and the last
observation is the last one that the caller was given. The new worker makes the
environments again by their factories, repeats the `set_attr`s, and resets them.
From there the autoreset mode decides, as after every other end of an episode. An
episode that had ended already is no loss: where NEXT_STEP still has to reset the
environment, the step returns what an ordinary reset does.

Seeds of replaced environments: see `superdex.lab.gym.vector.restart_seeds`.

**Nothing torn.** A worker writes results straight into the batch's shared memory,
and may die half-way. Its rows are written anew by the caller, from a copy of the
last observations, after the process is known to have ended.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import cloudpickle
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.envs.env_state import EnvState
from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.checks import refuse_space, same_space
from superdex.lab.gym.vector.columns import Columns, NestedColumn, ObjectColumn
from superdex.lab.gym.vector.errors import RestartUntoldError
from superdex.lab.gym.vector.infos import FINAL_OBS, extend, select
from superdex.lab.gym.vector.requests import Description, reset_request
from superdex.lab.gym.vector.restart_seeds import RestartSeeds

__all__ = ["RESTARTED", "Assignment", "Pool", "Receiver", "Recovery"]

RESTARTED = "Worker restarted"
"""The `truncated_reason` of environments whose worker died."""

Assignment = dict[int, tuple[bytes, int]]
"""By worker, the SET request and how many of its environments, from the first, took their value."""

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
        self._over = np.zeros(len(self._known), np.bool_)
        """(num_envs,) in NEXT_STEP mode: which of them ended an episode, so that a reset comes next."""
        self._seeds = RestartSeeds(len(self._known))
        self._assigned: list[tuple[str, Assignment]] = []
        """What workers were assigned, attribute by attribute, in order and as far as it still holds."""
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
            columns = resets if self._mode is AutoresetMode.SAME_STEP else select(resets, self._over)
            for worker in sorted(lost):
                self._end_episodes(self._rows[worker], columns)
            self._ended = set()
        self.remember()
        return columns

    def _end_episodes(self, worker_rows: slice, columns: Columns) -> None:
        out = self._out
        out.reward[worker_rows] = 0.0
        out.terminated[worker_rows] = False
        out.truncated[worker_rows] = False
        rows = worker_rows.start + np.flatnonzero(~self._over[worker_rows])
        if not rows.size:
            return
        out.truncated[rows] = True
        last = self._known[rows]
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
        self._known[...] = self._out.observation
        self._over[:] = False
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
        """The batch holds what the caller is given next by a step."""
        self._known[...] = self._out.observation
        if self._mode is AutoresetMode.NEXT_STEP:
            np.logical_or(self._out.terminated, self._out.truncated, out=self._over)

    def assigned(self, name: str, assignment: Assignment) -> None:
        """Environments have accepted values for their attribute `name`, and forgotten those that they had."""
        for known, earlier in self._assigned:
            if known == name:
                for worker, (_, taken) in assignment.items():
                    if worker in earlier and earlier[worker][1] <= taken:
                        del earlier[worker]
        self._assigned = [(known, earlier) for known, earlier in self._assigned if earlier]
        self._assigned.append((name, assignment))

    def require_told(self) -> None:
        """Raise RestartUntoldError if the caller does not know yet that episodes ended with a worker."""
        if self._ended:
            raise RestartUntoldError(
                f"Worker {', '.join(map(str, sorted(self._ended)))} died and was started again. That its environments'"
                " episodes have ended is told by the next step, and is in no state before that: step (or reset) once,"
                " then capture."
            )

    def restored(self, state: EnvState) -> None:
        """The environments continue from `state`."""
        self._seeds.restore(state)
        self._known[...] = state.observation
        if self._mode is AutoresetMode.NEXT_STEP:
            self._over[:] = state.pending
        self._ended = set()

    def _filled(self, worker: int, seeds: Sequence[int | None] | None) -> list[int | None]:
        """The worker's seeds, where None cannot mean to go on with a generator, which is gone."""
        rows = self._rows[worker]
        given = [None] * (rows.stop - rows.start) if seeds is None else seeds[rows]
        return [self._seeds.draw(rows.start + i) if seed is None else seed for i, seed in enumerate(given)]

    def _reset_anew(self, workers: set[int]) -> Columns:
        """Reset the environments of `workers`, replaced where they are dead; the infos of the resets."""
        pending = np.full(len(self._over), self._mode is not AutoresetMode.SAME_STEP) & ~self._over
        requests = {
            worker: reset_request(self._filled(worker, None), _NO_OPTIONS, pending[self._rows[worker]])
            for worker in workers
        }
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
        if self._attach is not None:
            self._ask(alive, dict.fromkeys(workers, self._attach))
        for _, assignment in self._assigned:
            self._ask(alive, {worker: request for worker, (request, _) in assignment.items()})
            for worker in alive.keys() & assignment.keys():
                _, refusal = pickle.loads(alive[worker])
                if refusal is not None:
                    raise refusal.rebuild(worker, range(self._rows[worker].start, self._rows[worker].stop))
        self._ask(alive, requests)
        return alive

    def _ask(self, alive: dict[int, bytes], requests: Mapping[int, bytes]) -> None:
        """Put the replies to those requests that are for workers in `alive` there; remove who dies."""
        due = alive.keys() & requests.keys()
        answers = self._pool.exchange([requests[w] if w in due else None for w in range(len(self._rows))])
        for worker in due:
            if (reply := answers[worker]) is None:
                del alive[worker]
            else:
                alive[worker] = reply
