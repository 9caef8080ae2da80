"""The options of `superdex train`, checked before anything heavy is imported or begun."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.extras import require_extra
from superdex.lab.apps.tables import make_console
from superdex.lab.apps.tasks import CfgOption, all_tasks, find_task, parse_cfg
from superdex.lab.apps.train.checkpoints import Checkpoint, CheckpointStore
from superdex.lab.apps.train.config import Stepping, TrainConfig
from superdex.lab.apps.train.recipe import RecipeOptions
from superdex.lab.apps.train.recipes import recipe_for
from superdex.lab.apps.train.run_directory import RunDirectory

__all__ = ["Train"]

_CHECKPOINTS_PER_RUN = 20
_SETTINGS = ("seed", "checkpoint_every", "num_learning_threads")


def _shown(metavar: str, default: str) -> Any:
    """How the help shows an option whose default depends on others."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a policy for a task by PPO on a large batch of environments.

    Each task has a recipe; every setting of it has a flag below, and the ones used are shown at the
    start. Ctrl-C saves and ends; --resume continues, with the same results to the bit as if nothing
    had happened. In the run directory: the policy, checkpoints, curves and a video.
    """

    task: Annotated[str | None, tyro.conf.Positional, _shown("[TASK]", "the task of the resumed run")] = None
    """A registered task, by name (CartPole) or id (superdex_gym/CartPole-v0), or a class of your own, as
    module:Class."""
    cfg: CfgOption = ()
    """Fields of the task's configuration, as in --cfg steps_per_episode=500 randomize_physics=0.2."""
    seed: Annotated[int | None, _shown("N", "0")] = None
    """Of environments, first weights, action noise and the order of minibatches."""
    num_workers: Annotated[int | None, _shown("N", "0, or 1 with --ray")] = None
    """Step in this many worker processes, or Ray actors; 0 for a batch in this process."""
    num_threads: Annotated[int | None, _shown("N", "one per CPU")] = None
    """Threads that step, shared out over the workers."""
    num_threads_per_worker: Annotated[int | None, _shown("N", "its share of --num_threads")] = None
    """Threads of each worker."""
    num_learning_threads: Annotated[int | None, _shown("N", "1, or --num_threads if a layer has over 64 units")] = None
    """Threads for the networks."""
    ray: Annotated[tuple[str, ...] | None, _shown("[ADDRESS]", "without Ray")] = None
    """Step on a Ray cluster: that of the address; without one, that of RAY_ADDRESS or the one that runs here, else a
    new one of this machine alone."""
    no_ray: bool = False
    """Step a resumed run in this machine's worker processes that stepped on a Ray cluster before."""
    run_dir: Annotated[Path | None, _shown("DIR", "runs/TASK-DATE-TIME")] = None
    """Where to keep the run; must not exist, or be empty."""
    resume: Annotated[Path | None, _shown("DIR", "a new run")] = None
    """Continue the run in this directory. Its settings stay; --total_steps may grow, and --num_workers,
    --num_threads, --ray and --no_ray may change what steps it."""
    checkpoint_every: Annotated[int | None, _shown("N", "a twentieth of the run")] = None
    """Control steps between two checkpoints."""
    video: bool = True
    """Whether to make a video of the trained policy at the end."""
    recipe: Annotated[RecipeOptions, tyro.conf.arg(name="")] = field(default_factory=RecipeOptions)
    """Settings of PPO."""

    def run(self) -> int:
        """Train; returns the exit code."""
        require_extra("train", "`superdex train`", "torch", "stable_baselines3", "tensorboard", "matplotlib")
        return self._begin() if self.resume is None else self._continue(self.resume)

    def _begin(self) -> int:
        config = self._new_config()
        _require_ray(config)
        run = RunDirectory.create(self.run_dir, config)
        with run.locked():
            return self._train(run, config, None)

    def _continue(self, path: Path) -> int:
        run = RunDirectory.open(path)
        with run.locked():
            config, checkpoint = self._resumed(run)
            _require_ray(config)
            return self._train(run, config, checkpoint)

    def _train(self, run: RunDirectory, config: TrainConfig, checkpoint: Checkpoint | None) -> int:
        from superdex.lab.apps.train.session import run_session

        return run_session(run, config, checkpoint, make_console(), video=self.video)

    def _new_config(self) -> TrainConfig:
        if self.task is None:
            self._refuse_task_as_address()
            raise UserError("Name the task to train, as in `superdex train CartPole`; `superdex list` shows all.")
        task = find_task(self.task, parse_cfg(self.cfg))
        recipe = replace(recipe_for(task.name), **_given(self.recipe))
        every = self.checkpoint_every
        return TrainConfig(
            task_id=task.task_id,
            cfg=dict(task.cfg),
            seed=0 if self.seed is None else self.seed,
            recipe=recipe,
            stepping=Stepping(**self._stepping()),
            checkpoint_every=max(1, recipe.total_steps // _CHECKPOINTS_PER_RUN) if every is None else every,
            num_learning_threads=self.num_learning_threads or 0,
        )

    def _stepping(self) -> dict[str, Any]:
        """The fields of `Stepping` that were given, or follow from those."""
        names = ("num_workers", "num_threads", "num_threads_per_worker")
        given: dict[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.num_threads_per_worker is None and (given or self.no_ray):
            given["num_threads_per_worker"] = 0  # a resumed run's were the share of other workers
        if self.ray is not None:
            if self.no_ray:
                raise UserError("--ray and --no_ray contradict each other: give one of them.")
            if len(self.ray) > 1:
                raise UserError(f"--ray takes one address or none, got {' '.join(self.ray)}.")
            if self.num_workers == 0:
                raise UserError("--ray steps in at least one worker, got --num_workers 0.")
            given |= {"ray": True, "ray_address": self.ray[0] if self.ray else None}
        elif self.no_ray or self.num_workers == 0:
            given |= {"ray": False, "ray_address": None}
        return given

    def _refuse_task_as_address(self) -> None:
        """Raise UserError if --ray got what was meant to be the task."""
        if self.ray and any(self.ray[-1] in (task.name, task.task_id) for task in all_tasks()):
            *address, task = self.ray
            raise UserError(
                f"--ray took {task} for the address of a cluster. Name the task before it:"
                f" superdex train {' '.join([task, '--ray', *address])}."
            )

    def _resumed(self, run: RunDirectory) -> tuple[TrainConfig, Checkpoint]:
        path, config = run.path, run.read_config()
        given = _given(self.recipe)
        total_steps = given.pop("total_steps", None)
        given |= {name: getattr(self, name) for name in _SETTINGS if getattr(self, name) is not None}
        if self.cfg:
            given["cfg"] = parse_cfg(self.cfg)
        contradictions = config.contradictions(given)
        if self.task is not None and find_task(self.task).task_id != config.task_id:
            contradictions.insert(0, f"the task is {config.task.name}, not {find_task(self.task).name}")
        if self.run_dir is not None and self.run_dir.resolve() != path.resolve():
            contradictions.append(f"--run_dir is {path}, not {self.run_dir}")
        if contradictions:
            raise UserError(f"A resumed run keeps its settings: in {path}, {'; '.join(contradictions)}.")
        checkpoint = CheckpointStore(run.checkpoints).newest()
        if checkpoint is None:
            raise UserError(f"The run in {path} has no checkpoint to continue from. Remove it, and begin anew.")
        goal = config.recipe.total_steps if total_steps is None else total_steps
        if goal <= checkpoint.steps:
            raise UserError(
                f"The run in {path} has come to {checkpoint.steps:,} steps; to continue it, --total_steps must be"
                f" larger, got {goal:,}."
            )
        return config.continued(total_steps=goal, stepping=self._stepping()), checkpoint


def _given(recipe: RecipeOptions) -> dict[str, Any]:
    """The settings for which there was a flag."""
    values = {each.name: getattr(recipe, each.name) for each in fields(recipe)}
    return {name: value for name, value in values.items() if value is not None}


def _require_ray(config: TrainConfig) -> None:
    if config.stepping.ray:
        require_extra("ray", "--ray", "ray")
