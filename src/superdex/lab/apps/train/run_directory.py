"""The directory of a training run: where everything is, and how a run is begun and found again.

runs/CartPole-20260101-120000/
    config.json           all settings: from them the run can be made again
    versions.json         machine and libraries of the latest session
    progress.csv          a row per iteration
    tensorboard/          the same for TensorBoard
    checkpoints/          a directory each, see `superdex.lab.apps.train.checkpoints`
    best/actor.npz        the policy with the best mean return
    learning_curve.png, video.mp4, summary.json       at the end
"""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from superdex.lab.apps.bench.machine import machine_facts
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.train.atomic import replace_file
from superdex.lab.apps.train.config import TrainConfig

__all__ = ["RunDirectory"]

_LIBRARIES = ("torch", "stable-baselines3", "ray")


class RunDirectory:
    """Paths of a run; `create` begins one, `open` finds one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.json"
        self.versions_file = path / "versions.json"
        self.progress_file = path / "progress.csv"
        self.tensorboard = path / "tensorboard"
        self.checkpoints = path / "checkpoints"
        self.best_policy = path / "best" / "actor.npz"
        self.curve = path / "learning_curve.png"
        self.video = path / "video.mp4"
        self.summary = path / "summary.json"

    @classmethod
    def create(cls, path: Path | None, config: TrainConfig) -> Self:
        """Begin a run in `path`, or in a new directory under `runs/` of the task's name and the time.

        Raises:
            UserError: if `path` holds anything, or cannot be written.
        """
        run = cls(path if path is not None else _fresh(config.task.name))
        try:
            if run.path.exists() and (not run.path.is_dir() or any(run.path.iterdir())):
                hint = f"To continue the run in it: --resume {run.path}." if run.config_file.exists() else ""
                raise UserError(f"--run_dir {run.path} exists and is not an empty directory. {hint}".rstrip())
            run.checkpoints.mkdir(parents=True)
            run.best_policy.parent.mkdir()
            run.write_config(config)
            run.write_versions()
        except OSError as error:
            raise UserError(f"--run_dir {run.path} cannot be written: {error.strerror or error}.") from None
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

    def write_versions(self) -> dict[str, Any]:
        """Note machine and libraries; returns those libraries that are of another version than before, with it."""
        facts = machine_facts()
        facts["libraries"] |= {name: _version(name) for name in _LIBRARIES}
        before = json.loads(self.versions_file.read_text())["libraries"] if self.versions_file.exists() else {}
        text = json.dumps(facts, indent=1) + "\n"
        replace_file(self.versions_file, lambda path: path.write_text(text))
        return {name: old for name, old in before.items() if old != facts["libraries"].get(name)}

    def abandon(self) -> None:
        """Remove a run that never got to its first checkpoint."""
        shutil.rmtree(self.path, ignore_errors=True)


def _fresh(name: str) -> Path:
    stem = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    path, number = stem, 1
    while path.exists():  # two runs within a second
        number += 1
        path = stem.with_name(f"{stem.name}-{number}")
    return path


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
