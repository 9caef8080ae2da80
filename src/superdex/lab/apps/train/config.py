"""What a training run is, in full: from its configuration it can be made again.

`config.json` in the run directory holds it. A resumed run takes it from there;
only how far it goes and what steps its environments may then be changed, which
leaves the numbers of the environments as they are, to the bit.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from superdex.lab.apps.checking import require, whole
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.machine import num_usable_cpus
from superdex.lab.apps.tasks import Task, find_task
from superdex.lab.apps.train.recipe import Recipe

__all__ = ["Stepping", "TrainConfig"]

_SMALL = 64
"""Units of the widest layer of a network for which a second thread costs more than it saves."""
_NUM_SHOWN = 4
"""Numbers that are offered in place of one that does not fit."""


@dataclass(frozen=True, kw_only=True)
class Stepping:
    """What steps the environments.

    Raises:
        UserError: if a value is impossible; the message names the flag.
    """

    num_workers: int = 0
    """Worker processes (`HybridVectorEnv`), or Ray actors; 0 for a batch in this process (`SceneVectorEnv`)."""
    num_threads: int = 0
    """Threads that step; 0 becomes one per usable CPU."""
    num_threads_per_worker: int = 0
    """Threads of each worker; 0 becomes its share of `num_threads`."""
    ray: bool = False
    """Whether the workers are actors on a Ray cluster (`RayVectorEnv`)."""
    ray_address: str | None = None
    """Of the cluster; None for the one that Ray finds, or else a new one on this machine."""

    def __post_init__(self) -> None:
        for name in ("num_workers", "num_threads", "num_threads_per_worker"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
            require(getattr(self, name) >= 0, name, "must not be negative", getattr(self, name))
        if self.ray_address is not None and self.ray_address.startswith("ray://"):
            raise UserError(
                f"--ray takes host:port of a cluster that this machine is a node of, or auto, got {self.ray_address}."
            )
        if self.ray and not self.num_workers:
            object.__setattr__(self, "num_workers", 1)
        if self.num_threads_per_worker and not self.num_workers:
            raise UserError(
                f"--num_threads_per_worker is for workers, of which there are none, got {self.num_threads_per_worker}."
                " Give --num_workers, too, or --num_threads for a batch in this process."
            )
        if not self.num_threads:
            object.__setattr__(self, "num_threads", num_usable_cpus())
        if self.num_workers and not self.num_threads_per_worker:
            object.__setattr__(self, "num_threads_per_worker", max(1, self.num_threads // self.num_workers))

    def describe(self) -> str:
        """In words, for the console."""
        if self.num_workers == 0:
            return f"in process, {self.num_threads} thread{'s' * (self.num_threads > 1)}"
        name, plural = ("Ray actor", "s") if self.ray else ("worker process", "es")
        threads = f"{self.num_threads_per_worker} thread{'s' * (self.num_threads_per_worker > 1)}"
        return f"{self.num_workers} {name}{plural * (self.num_workers > 1)}, {threads} each"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """All settings of a run.

    Raises:
        UserError: if they do not fit each other; the message names the flags.
    """

    task_id: str
    """As Gymnasium knows it, "superdex_gym/CartPole-v0"."""
    cfg: dict[str, Any] = field(default_factory=dict)
    """Fields of the task's configuration that were changed."""
    seed: int
    """Of the environments, the policy's first weights, its noise and the order of minibatches."""
    recipe: Recipe
    """How to learn."""
    stepping: Stepping
    """What steps the environments."""
    checkpoint_every: int
    """Control steps between two checkpoints."""
    num_learning_threads: int = 0
    """Threads for the networks; 0 becomes 1 for small ones, which are fastest so, and `num_threads` for others."""

    def __post_init__(self) -> None:
        for name in ("seed", "checkpoint_every", "num_learning_threads"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        require(0 <= self.seed < 2**31, "seed", f"must be from 0 to {2**31 - 1}", self.seed)
        require(self.checkpoint_every >= 1, "checkpoint_every", "must be at least 1", self.checkpoint_every)
        threads = self.num_learning_threads
        require(threads >= 0, "num_learning_threads", "must not be negative", threads)
        if self.num_learning_threads == 0:
            small = max(self.recipe.hidden_sizes) <= _SMALL
            object.__setattr__(self, "num_learning_threads", 1 if small else self.stepping.num_threads)
        workers, num_envs = self.stepping.num_workers, self.recipe.num_envs
        if workers and num_envs % workers:
            fitting = [number for number in range(1, num_envs + 1) if num_envs % number == 0]
            nearest = sorted(sorted(fitting, key=lambda number: abs(number - workers))[:_NUM_SHOWN])
            raise UserError(
                f"--num_workers must divide the {num_envs:,} environments evenly, got {workers}."
                f" These do: {', '.join(map(str, nearest))}."
            )

    @property
    def task(self) -> Task:
        """The task, configured."""
        return find_task(self.task_id, self.cfg)

    def to_json(self) -> str:
        """As `from_json` takes it."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The configuration that `to_json` wrote.

        Raises:
            ValueError: if the text is something else.
        """
        try:
            values: dict[str, Any] = json.loads(text)
            recipe = dict(values.pop("recipe"))
            recipe["hidden_sizes"] = tuple(recipe["hidden_sizes"])
            return cls(recipe=Recipe(**recipe), stepping=Stepping(**values.pop("stepping")), **values)
        except (TypeError, KeyError, AttributeError, UserError) as error:
            raise ValueError(f"it does not describe a training run of this release ({error})") from error

    def continued(self, *, total_steps: int | None, stepping: dict[str, Any]) -> Self:
        """The configuration of a resumed run: another goal, and other fields of `stepping` than before."""
        recipe = self.recipe if total_steps is None else replace(self.recipe, total_steps=total_steps)
        return replace(self, recipe=recipe, stepping=replace(self.stepping, **stepping))

    def learning_rate_at(self, steps: int) -> float:
        """The learning rate of the iteration that begins after so many control steps."""
        rate = self.recipe.learning_rate
        return rate if self.recipe.schedule == "constant" else rate * max(0.0, 1 - steps / self.recipe.total_steps)

    def contradictions(self, given: dict[str, Any]) -> list[str]:
        """Those of the flags `given`, by name and as plain data, that differ from this configuration, in words."""
        own = {**{f.name: getattr(self.recipe, f.name) for f in fields(self.recipe)}, **vars(self)}
        own, given = _as_read(own | {"recipe": None, "stepping": None}), _as_read(given)
        return [f"--{name} is {own[name]}, not {value}" for name, value in given.items() if own[name] != value]


def _as_read(values: dict[str, Any]) -> dict[str, Any]:
    """As they are after being written to a file and read again, where tuples are lists."""
    return json.loads(json.dumps(values))
