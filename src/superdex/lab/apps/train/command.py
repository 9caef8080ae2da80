"""The options of `superdex train`: what was typed, handed on to `train` and `resume`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import tyro

from superdex.lab.apps.counts import Count
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.failure import guarded
from superdex.lab.apps.options import TASK_HELP, CfgOption, shown
from superdex.lab.apps.tasks import Task, all_tasks, configured_task, find_task, parse_cfg
from superdex.lab.apps.train.config import TrainConfig
from superdex.lab.apps.train.launch import resume, train
from superdex.lab.apps.train.recipe import RecipeOptions
from superdex.lab.apps.train.run_directory import RunDirectory

__all__ = ["Train"]

_SETTINGS = (
    *("seed", "num_workers", "num_threads", "num_threads_per_worker", "num_learning_threads"),
    "checkpoint_every",
)


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a policy for a task by PPO on a large batch of environments.

    Each task has a recipe; every setting of it has a flag below, and the ones used are shown at the
    start. Ctrl-C saves and ends; --resume continues, with the same results to the bit as if nothing
    had happened. In the run directory: the policy, checkpoints, curves and a video. Numbers of steps may
    be typed as 300000, 300_000 or 3e5.
    """

    task: Annotated[str | None, tyro.conf.Positional, shown("[TASK]", "the task of the resumed run", TASK_HELP)] = None
    """What to train for."""
    cfg: CfgOption = ()
    """Fields of the task's configuration, as in --cfg steps_per_episode=500 randomize_physics=0.2."""
    seed: Annotated[Count, shown("N", "0")] = None
    """Of environments, first weights, action noise and the order of minibatches."""
    num_workers: Annotated[Count, shown("N", "0, or 1 with --ray")] = None
    """Step in this many worker processes, or Ray actors; 0 for a batch in this process."""
    num_threads: Annotated[Count, shown("N", "one per CPU")] = None
    """Threads that step, shared out over the workers."""
    num_threads_per_worker: Annotated[Count, shown("N", "its share of --num_threads")] = None
    """Threads of each worker."""
    num_learning_threads: Annotated[Count, shown("N", "1, or --num_threads if a layer has over 64 units")] = None
    """Threads for the networks."""
    ray: Annotated[tuple[str, ...] | None, shown("[ADDRESS]", "without Ray")] = None
    """Step on the Ray cluster at the address, or without one that of RAY_ADDRESS, one that runs here, or a new one."""
    no_ray: bool = False
    """With --resume: step in this machine's worker processes what was stepped on a Ray cluster before."""
    run_dir: Annotated[Path | None, shown("DIR", "runs/TASK-DATE-TIME")] = None
    """Where to keep the run; must not exist, or be empty."""
    resume: Annotated[Path | None, shown("DIR", "a new run")] = None
    """Continue the run in this directory. Its settings stay, but for --total_steps and what the steps are taken by."""
    checkpoint_every: Annotated[Count, shown("N", "a twentieth of the run")] = None
    """Control steps between two checkpoints."""
    no_video: bool = False
    """Make no video of the trained policy at the end."""
    recipe: Annotated[RecipeOptions, tyro.conf.arg(name="")] = field(default_factory=RecipeOptions)
    """Settings of PPO."""

    def run(self) -> int:
        """Train; returns the exit code."""
        return guarded(self._task(), self._train)

    def _train(self) -> None:
        if self.resume is None:
            train(self._name(), run_dir=self.run_dir, video=not self.no_video, **self._settings())
        else:
            self._refuse_other_run(self.resume)
            resume(self.resume, video=not self.no_video, **self._settings())

    def _settings(self) -> dict[str, Any]:
        """What was given, by the names that `train` and `resume` take."""
        values = {name: getattr(self, name) for name in _SETTINGS} | {"ray": self._ray()}
        values |= {each.name: getattr(self.recipe, each.name) for each in fields(self.recipe)}
        if self.cfg:
            values["cfg"] = parse_cfg(self.cfg)
        return {name: value for name, value in values.items() if value is not None}

    def _ray(self) -> bool | str | None:
        if self.ray is None:
            return False if self.no_ray else None
        if self.no_ray:
            raise UserError("--ray and --no_ray contradict each other: give one of them.")
        if len(self.ray) > 1:
            raise UserError(f"--ray takes one address or none, got {' '.join(self.ray)}.")
        return self.ray[0] if self.ray else True

    def _name(self) -> str:
        if self.task is not None:
            return self.task
        self._refuse_task_as_address()
        raise UserError("Name the task to train, as in `superdex train CartPole`; `superdex list` shows all.")

    def _refuse_task_as_address(self) -> None:
        """Raise UserError if --ray got what was meant to be the task."""
        if self.ray and any(self.ray[-1] in (task.name, task.task_id) for task in all_tasks()):
            *address, task = self.ray
            raise UserError(
                f"--ray took {task} for the address of a cluster. Name the task before it:"
                f" superdex train {' '.join([task, '--ray', *address])}."
            )

    def _refuse_other_run(self, path: Path) -> None:
        """Raise UserError if the run that is to be resumed is of another task, or in another directory, than given."""
        contradictions = []
        config = RunDirectory.open(path).read_config()
        if self.task is not None and not _is_task_of(config, self.task):
            contradictions.append(f"the task is {config.task_id}, not {find_task(self.task).task_id}")
        if self.run_dir is not None and self.run_dir.resolve() != path.resolve():
            contradictions.append(f"--run_dir is {path}, not {self.run_dir}")
        if contradictions:
            raise UserError(f"A resumed run keeps its settings: in {path}, {'; '.join(contradictions)}.")

    def _task(self) -> Task:
        if self.resume is None:
            return configured_task(self._name(), self.cfg)
        return RunDirectory.open(self.resume).read_config().task


def _is_task_of(config: TrainConfig, name: str) -> bool:
    """Whether a name, however spelled, is of the run's task: with the fields changed in it, class and values are equal.

    Raises:
        UserError: if there is no such task.
    """
    own = config.task
    try:
        given = find_task(name, config.cfg)
    except UserError:
        find_task(name)  # raises if it is for want of the task, not of its fields
        return False
    first, second = ((task.env_class, task.env_class.Cfg.make(task.fields)) for task in (own, given))
    return first == second
