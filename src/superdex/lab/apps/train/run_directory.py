"""The directory of a training run: where everything is, and how a run is begun and found again.

runs/CartPole-20260101-120000/
    .lock                 held by the process that trains
    config.json           all settings: from them the run can be made again
    versions.json         machine and libraries of the latest session
    progress.csv          a row per iteration
    tensorboard/          the same for TensorBoard
    checkpoints/          a directory each, see `superdex.lab.apps.train.checkpoints`
    best/actor.npz        the policy with the best mean return
    learning_curve.png, video.mp4, summary.json       at the end
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from superdex.lab.apps.atomic import remove_leftovers, replace_file
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.machine import machine_facts
from superdex.lab.apps.train.config import TrainConfig

__all__ = ["RunDirectory"]

_LIBRARIES = ("torch", "stable-baselines3", "ray")


class RunDirectory:
    """Paths of a run; `create` begins one, `open` finds one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock_file = path / ".lock"
        self.config_file = path / "config.json"
        self.versions_file = path / "versions.json"
        self.progress_file = path / "progress.csv"
        self.tensorboard = path / "tensorboard"
        self.checkpoints = path / "checkpoints"
        self.best_policy = path / "best" / "actor.npz"
        self.curve = path / "learning_curve.png"
        self.video = path / "video.mp4"
        self.summary = path / "summary.json"
        self._is_new = False

    @classmethod
    def create(cls, path: Path | None, config: TrainConfig) -> Self:
        """Begin a run in `path`, or in a new directory under `runs/` of the task's name and the time.

        Raises:
            UserError: if `path` holds anything, or cannot be written.
        """
        try:
            run = cls(_fresh(config.task.name) if path is None else path)
            if run.path.exists() and (not run.path.is_dir() or any(run.path.iterdir())):
                raise UserError(f"--run_dir {run.path} exists and is not an empty directory.")
            run._is_new = path is None or not path.exists()
            run._fill(config)
        except OSError as error:
            where = Path("runs") if path is None else path
            raise UserError(f"--run_dir {where} cannot be written: {error.strerror or error}.") from None
        return run

    @classmethod
    def open(cls, path: Path) -> Self:
        """Find the run in `path`.

        Raises:
            UserError: if there is none.
        """
        run = cls(path)
        if not run.config_file.is_file():
            what = "has no config.json" if path.is_dir() else "is no directory"
            raise UserError(f"{path} is not the directory of a training run: it {what}.")
        return run

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Have the run for this process alone; a process that dies lets go of it.

        Raises:
            UserError: if another process has it, or it cannot be written.
        """
        try:
            stream = self.lock_file.open("a")
        except OSError as error:
            raise UserError(f"The run in {self.path} cannot be written: {error.strerror or error}.") from None
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"The run in {self.path} is in use: another process is training it.") from None
            except OSError:  # a file system without locks; there is no better way on it
                pass
            yield

    def remove_leftovers(self) -> None:
        """Remove what a killed process left unfinished."""
        for directory in (self.path, self.checkpoints, self.best_policy.parent):
            remove_leftovers(directory)

    def read_config(self) -> TrainConfig:
        """The run's configuration.

        Raises:
            UserError: if the file cannot be read or is damaged.
        """
        try:
            return TrainConfig.from_json(self.config_file.read_text())
        except (OSError, ValueError) as error:
            raise UserError(f"{self.config_file} cannot be used: {error}.") from None

    def write_config(self, config: TrainConfig) -> None:
        """Replace the run's configuration."""
        replace_file(self.config_file, lambda path: path.write_text(config.to_json()))

    def write_versions(self) -> None:
        """Note machine and libraries."""
        text = json.dumps(machine_facts(*_LIBRARIES), indent=1) + "\n"
        replace_file(self.versions_file, lambda path: path.write_text(text))

    def changed_libraries(self) -> dict[str, str | None]:
        """Libraries of another version than the one noted, which comes with them; none if the file is damaged."""
        try:
            before = dict(json.loads(self.versions_file.read_text())["libraries"])
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        now = machine_facts(*_LIBRARIES)["libraries"]
        return {name: old for name, old in before.items() if old != now.get(name)}

    def abandon(self) -> None:
        """Remove a run that never got to its first checkpoint: its own files, and the directory if `create` made it."""
        with suppress(OSError):
            self.remove_leftovers()
            for path in (self.checkpoints, self.tensorboard, self.best_policy.parent):
                shutil.rmtree(path, ignore_errors=True)
            for path in (self.lock_file, self.config_file, self.versions_file, self.progress_file):
                path.unlink(missing_ok=True)
            if self._is_new:
                self.path.rmdir()  # which fails if there is something else in it

    def _fill(self, config: TrainConfig) -> None:
        try:
            self.checkpoints.mkdir(parents=True)
            self.best_policy.parent.mkdir()
            self.write_config(config)
            self.write_versions()
        except FileExistsError:  # what another process began in this very moment is not ours to remove
            raise UserError(f"--run_dir {self.path}: another run was begun in it just now.") from None
        except BaseException:
            self.abandon()
            raise


def _fresh(name: str) -> Path:
    """A new directory; two runs that begin within a second, even in two processes, get one each."""
    stem = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    path, number = stem, 1
    while True:
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
            path = stem.with_name(f"{stem.name}-{number}")
        else:
            return path
