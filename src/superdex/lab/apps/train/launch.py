"""Training from Python: `train` a new run, `resume` an old one. `superdex train` is a layer of flags over them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.extras import require_extra
from superdex.lab.apps.tables import make_console
from superdex.lab.apps.tasks import find_task, task_of_class
from superdex.lab.apps.train.checkpoints import Checkpoint, CheckpointStore
from superdex.lab.apps.train.config import TrainConfig
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.lab.apps.train.settings import new_config, resumed_config
from superdex.lab.apps.train.summary import TrainResult
from superdex.lab.gym.envs import MochiEnv

__all__ = ["resume", "train"]

_LIBRARIES = ("torch", "stable_baselines3", "tensorboard", "matplotlib")


def train(
    task: str | type[MochiEnv],
    *,
    cfg: Mapping[str, Any] | None = None,
    seed: int = 0,
    run_dir: str | os.PathLike[str] | None = None,
    video: bool = True,
    verbose: bool = True,
    **settings: Any,
) -> TrainResult:
    """Train a policy for a task, as `superdex train` does.

    A first Ctrl-C, SIGTERM or SIGHUP ends the run after the present iteration, and saves it; a second Ctrl-C stops at
    once. (In the main thread only, where Python handles signals.)

    Args:
        task: a name or id, as the command takes it, or a class, defined at the top level of a module. A class of ours
            stands for the registered task that it is without further fields, recipe included.
        cfg: fields of the task's configuration that are to be changed.
        seed: of environments, first weights, action noise and the order of minibatches.
        run_dir: where to keep the run; must not exist, or be empty. By default under `runs/`.
        video: whether to make a video of the trained policy at the end.
        verbose: whether to show settings, progress and results on standard output.
        **settings: any other setting that is a flag of the command, by its name: `total_steps=1e6`, `gamma=0.98`,
            `num_workers=4`; `ray` is True, or the address of a cluster. (With workers, the calling script needs
            its `if __name__ == "__main__":`.)

    Raises:
        UserError: if a setting or the task is wrong; nothing was begun.
        TrainingDiverged: if a loss or a parameter is no longer finite.
        KeyboardInterrupt: after a second Ctrl-C.
        Exception: whatever the task raises. A note on it says how to resume; without a checkpoint, the run's
            directory is removed.
    """
    require_extra("train", "Training", *_LIBRARIES)
    found = find_task(task, cfg) if isinstance(task, str) else task_of_class(task, cfg)
    config = new_config(found, {**settings, "seed": seed})
    _require_ray(config)
    path = None if run_dir is None else Path(run_dir)
    if path is not None and os.path.exists(RunDirectory(path).config_file):  # False, too, if it cannot be told
        _refuse_run_in_the_way(RunDirectory(path))
    run = RunDirectory.create(path, config)
    with run.locked(), _removed_if_bare(run):
        return _session(run, config, None, video=video, verbose=verbose)


def resume(
    run_dir: str | os.PathLike[str], *, video: bool = True, verbose: bool = True, **settings: Any
) -> TrainResult:
    """Continue a run from its newest checkpoint, with the same results to the bit as if it had not been interrupted.

    Args:
        run_dir: the run's directory.
        video: as in `train`.
        verbose: as in `train`.
        **settings: `total_steps`, beyond those done, and what steps the environments: `num_workers`, `num_threads`,
            `num_threads_per_worker`, and `ray` (True, an address, or False for none). Others must be what they were.

    Raises:
        UserError: if there is no such run, or nothing to continue from, or a setting contradicts the run's.
        TrainingDiverged, Exception: as `train`.
    """
    require_extra("train", "Training", *_LIBRARIES)
    run = RunDirectory.open(Path(run_dir))
    with run.locked():
        before, checkpoint = run.read_config(), CheckpointStore(run.checkpoints).newest()
        if checkpoint is None:
            raise UserError(f"The run in {run.path} has no checkpoint to continue from. Remove it, and begin anew.")
        finished = run.summary.exists()
        config = resumed_config(before, settings, str(run.path), steps=checkpoint.steps, finished=finished)
        _require_ray(config)
        return _session(run, config, checkpoint, video=video, verbose=verbose)


def _session(
    run: RunDirectory, config: TrainConfig, checkpoint: Checkpoint | None, *, video: bool, verbose: bool
) -> TrainResult:
    from superdex.lab.apps.train.session import run_session  # imports torch

    return run_session(run, config, checkpoint, make_console() if verbose else Console(quiet=True), video=video)


def _refuse_run_in_the_way(run: RunDirectory) -> NoReturn:
    """Raise the UserError of a new run where another one is; it says what to do about that."""
    if CheckpointStore(run.checkpoints).newest() is None:
        remedy = "The run in it has no checkpoint to continue from: remove it."
    else:
        remedy = f"To continue the run in it: --resume {run.path}."
    raise UserError(f"--run_dir {run.path} exists and is not an empty directory. {remedy}")


@contextmanager
def _removed_if_bare(run: RunDirectory) -> Iterator[None]:
    """Remove a new run that ends by an exception before its first checkpoint."""
    try:
        yield
    except BaseException:
        if not CheckpointStore(run.checkpoints).all():
            run.abandon()
        raise


def _require_ray(config: TrainConfig) -> None:
    if config.stepping.ray:
        require_extra("ray", "--ray", "ray")
