"""Checkpoints of a training run: what one holds, how it is written, found and loaded.

    store = CheckpointStore(run.checkpoints)
    store.save(record, policy, info, fill)              # atomic: killed meanwhile, the previous one is intact
    checkpoint = store.newest()
    loaded = load_policy("runs/CartPole-20260101-120000")     # its best policy, or a checkpoint's

A checkpoint is a directory `step_000001000000` with

- `actor.npz`: the policy as it acts, with its normaliser; NumPy only;
- `policy.zip`, `normalizer.npz`: policy, optimiser and normaliser as Stable-Baselines3 and our adapter load them;
- `environments.npz`: the state of all environments;
- `training.npz`: the learner's other state, random generators included;
- `meta.json`: a `CheckpointRecord`.

All are kept, so that `superdex history` can show them, but only the newest few can be
resumed from: the others lose `environments.npz` and `training.npz`, the large ones.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from superdex.lab.apps.atomic import new_directory, remove_directory
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tasks import Task, find_task
from superdex.lab.apps.train.policy_file import PolicyInfo, read_policy, save_policy
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.lab.gym.rollouts import GaussianMlpPolicy

__all__ = ["Checkpoint", "CheckpointRecord", "CheckpointStore", "LoadedPolicy", "load_policy"]

_NAME = re.compile(r"step_(\d+)")
_KEPT_WHOLE = 2


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """How far training had come, apart from what the learner keeps itself."""

    steps: int
    """Control steps so far."""
    iteration: int
    """Updates so far."""
    wall_seconds: float
    """Duration of training so far [s]."""
    stepping_seconds: float
    """Part of it spent on stepping [s]."""
    learning_seconds: float
    """Part of it spent on learning [s]."""
    best_return: float | None
    """The mean return of the best policy so far; None if there is none."""
    first_episodes: int | None = None
    """Episodes that had ended when every environment had ended one; None before."""


@dataclass(frozen=True)
class Checkpoint:
    """Paths of a checkpoint."""

    path: Path

    @property
    def steps(self) -> int:
        """Control steps of training before it."""
        match = _NAME.fullmatch(self.path.name)
        assert match is not None  # so it was found
        return int(match[1])

    @property
    def actor(self) -> Path:
        """The policy as it acts."""
        return self.path / "actor.npz"

    @property
    def learner(self) -> Path:
        """Policy and optimiser, as Stable-Baselines3 saves them."""
        return self.path / "policy.zip"

    @property
    def normalizer(self) -> Path:
        """The observation normaliser, if there is one."""
        return self.path / "normalizer.npz"

    @property
    def environments(self) -> Path:
        """The state of all environments."""
        return self.path / "environments.npz"

    @property
    def training(self) -> Path:
        """The rest of the learner's state."""
        return self.path / "training.npz"

    @property
    def meta(self) -> Path:
        """The record."""
        return self.path / "meta.json"

    @property
    def resumable(self) -> bool:
        """Whether training can go on from it."""
        return all(path.is_file() for path in (self.environments, self.training, self.learner, self.meta))

    def read_record(self) -> CheckpointRecord:
        """How far training had come.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is damaged.
        """
        try:
            return CheckpointRecord(**json.loads(self.meta.read_text()))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.meta.name} is damaged ({error}).") from error


class CheckpointStore:
    """The checkpoints in a directory, which is there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def all(self) -> list[Checkpoint]:
        """From the first to the newest."""
        found = [Checkpoint(path) for path in self._directory.glob("step_*") if _NAME.fullmatch(path.name)]
        return sorted(found, key=lambda checkpoint: checkpoint.steps)

    def newest(self) -> Checkpoint | None:
        """The newest one that training can go on from."""
        return next((checkpoint for checkpoint in reversed(self.all()) if checkpoint.resumable), None)

    def save(
        self,
        record: CheckpointRecord,
        policy: GaussianMlpPolicy,
        info: PolicyInfo,
        fill: Callable[[Checkpoint], None],
    ) -> Checkpoint:
        """Write a checkpoint; it has its name only once it is whole and on the disk.

        Args:
            record: goes to `meta.json`.
            policy: goes to `actor.npz`, with `info`.
            fill: writes the other files; without `environments.npz` it is one to look at, not to resume from.
        """
        checkpoint = Checkpoint(self._directory / f"step_{record.steps:012d}")
        with new_directory(checkpoint.path) as unfinished:
            part = Checkpoint(unfinished)
            fill(part)
            save_policy(part.actor, policy, info)
            part.meta.write_text(json.dumps(asdict(record), indent=1) + "\n")
        self._thin_out()
        return checkpoint

    def remove_after(self, steps: int) -> None:
        """Remove the checkpoints of more than `steps` control steps, which training will come to again."""
        for checkpoint in self.all():
            if checkpoint.steps > steps:
                remove_directory(checkpoint.path)

    def _thin_out(self) -> None:
        for checkpoint in self.all()[:-_KEPT_WHOLE]:
            for path in (checkpoint.environments, checkpoint.training):
                path.unlink(missing_ok=True)


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy and where it comes from."""

    task: Task
    """The task it was trained on."""
    policy: GaussianMlpPolicy
    """Deterministic, normaliser included."""
    info: PolicyInfo
    """How it was trained so far."""
    path: Path
    """The file it was read from."""


def load_policy(path: str | os.PathLike[str]) -> LoadedPolicy:
    """The policy of a checkpoint, or of a run: the best one, or the newest while there is no best.

    Args:
        path: the directory of a run or a checkpoint, or an `actor.npz`.

    Raises:
        UserError: if there is no policy, it is damaged, or its task is not there any more, or not as it was.
    """
    file = _policy_file(Path(path))
    try:
        policy, info = read_policy(file)
    except (OSError, ValueError) as error:
        raise UserError(f"The policy cannot be loaded: {error}") from None
    try:
        task = find_task(info.task_id, info.cfg)
    except UserError as error:
        raise UserError(f"The task of the policy in {file} cannot be made: {error}") from error
    return LoadedPolicy(task, policy, info, file)


def _policy_file(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.is_dir():
        raise UserError(f"There is no run or checkpoint {str(path)!r}.")
    run = RunDirectory(path)
    checkpoints = CheckpointStore(run.checkpoints).all()
    candidates = [Checkpoint(path).actor, run.best_policy, *(each.actor for each in checkpoints[-1:])]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise UserError(f"{str(path)!r} is neither a run nor a checkpoint, or has no policy yet.")
