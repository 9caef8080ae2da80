"""A session of training from the console's point of view: what is shown before, meanwhile and after.

Imports torch, so it is itself imported only when all options have been checked.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import fields

from rich.console import Console
from rich.markup import escape

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.recording import Shown, record
from superdex.lab.apps.tables import make_table
from superdex.lab.apps.train.checkpoints import Checkpoint, CheckpointStore, load_policy
from superdex.lab.apps.train.config import TrainConfig
from superdex.lab.apps.train.curve import draw_learning_curve
from superdex.lab.apps.train.display import make_display
from superdex.lab.apps.train.environments import make_environments
from superdex.lab.apps.train.interruption import Interruption
from superdex.lab.apps.train.learner import make_learner, resume_learner
from superdex.lab.apps.train.recipes import recipe_for
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.lab.apps.train.summary import summarize, summary_table
from superdex.lab.apps.train.training import Training
from superdex.lab.gym.adapters.soundness import TrainingDiverged

__all__ = ["run_session"]

_DIVERGED = 1
_VIDEO_SECONDS = 10.0


def run_session(
    run: RunDirectory, config: TrainConfig, checkpoint: Checkpoint | None, console: Console, *, video: bool
) -> int:
    """Train as `config` says, from `checkpoint` if there is one; returns the exit code.

    The code is 0 at the end and after Ctrl-C, and 1 if training diverged.

    Raises:
        KeyboardInterrupt: after a second Ctrl-C; what was saved before is intact.
    """
    _show_settings(run, config, console)
    if checkpoint is not None:
        _show_continuation(run, config, checkpoint, console)
    try:
        finished, training = _train(run, config, checkpoint, console)
    except TrainingDiverged as error:
        print(f"superdex: error: {error}", file=sys.stderr)
        _tell_what_is_left(run)
        return _DIVERGED
    except UserError:
        if not CheckpointStore(run.checkpoints).all():
            run.abandon()
        raise
    except BaseException:
        _tell_where_to_go_on(run)
        raise
    if not finished:
        console.print(f"Interrupted at {training.rows[-1].steps:,} steps, and saved. To continue:")
        console.print(f"  {_resume_command(run)}", markup=False, soft_wrap=True)
    draw_learning_curve(training.rows, f"{config.task.name}, seed {config.seed}", run.curve)
    if not finished:
        return 0
    if video:
        _film(run, console)
    console.print(summary_table(summarize(run, training.rows)))
    made = [path for path in (run.best_policy, run.curve, run.video) if path.exists()]
    console.print(f"made: {', '.join(map(str, made))}", markup=False, soft_wrap=True)
    return 0


def _train(
    run: RunDirectory, config: TrainConfig, checkpoint: Checkpoint | None, console: Console
) -> tuple[bool, Training]:
    run.remove_leftovers()
    with make_environments(config) as envs:
        if checkpoint is None:
            training = Training(run, config, make_learner(config, envs))
            begun = 0
        else:
            learner, record = resume_learner(config, envs, checkpoint)
            training = Training(run, config, learner, record)
            CheckpointStore(run.checkpoints).remove_after(record.steps)
            run.write_config(config)
            begun = record.steps
        with (
            Interruption(announce=not console.is_terminal) as interruption,
            make_display(console, begun, config.recipe.total_steps, interruption) as display,
        ):
            return training.run(display, interruption), training


def _film(run: RunDirectory, console: Console) -> None:
    """Make the video of the best policy; where that is not possible, say why and go on."""
    loaded = load_policy(run.best_policy)
    try:
        with Console(stderr=True).status("filming the best policy"):
            record(loaded.task, [Shown(loaded.policy)], run.video, seconds=_VIDEO_SECONDS, quality="nice")
    except (UserError, RuntimeError) as error:
        console.print(" ".join(f"no video: {error}".split()), markup=False, soft_wrap=True)


def _show_settings(run: RunDirectory, config: TrainConfig, console: Console) -> None:
    own, usual = config.recipe, recipe_for(config.task.name)
    table = make_table(escape(f"{config.task_id}, seed {config.seed}"), "setting", "value", text=["value"])
    for each in fields(own):
        value, recommended = _text(getattr(own, each.name)), _text(getattr(usual, each.name))
        table.add_row(each.name, value if value == recommended else f"[bold]{value}[/] (recipe: {recommended})")
    for name, value in config.cfg.items():
        table.add_row(f"cfg: {name}", f"[bold]{escape(str(value))}[/]")
    table.add_row("stepping", config.stepping.describe())
    table.add_row("learning", f"{config.num_learning_threads} thread{'s' * (config.num_learning_threads > 1)}")
    table.add_row("checkpoints", f"every {config.checkpoint_every:,} steps")
    console.print(table)
    console.print(f"run directory: {run.path}", markup=False, soft_wrap=True)


def _show_continuation(run: RunDirectory, config: TrainConfig, checkpoint: Checkpoint, console: Console) -> None:
    """Say where a resumed run goes on, and what is not as it was."""
    before, steps = run.read_config(), checkpoint.steps
    lines = [f"continuing from {steps:,} steps"]
    if before.recipe.total_steps != config.recipe.total_steps:
        lines.append(f"goal: {config.recipe.total_steps:,} steps, before {before.recipe.total_steps:,}")
        rates = before.learning_rate_at(steps), config.learning_rate_at(steps)
        if rates[0] != rates[1]:
            lines.append(
                f"the learning rate falls linearly to 0 at the new goal: it jumps from {rates[0]:.3g} to {rates[1]:.3g}"
            )
    for name, old in run.write_versions().items():
        lines.append(f"{name} was {old or 'not installed'} before: results may differ")
    console.print("\n".join(lines), markup=False, soft_wrap=True)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:,}" if type(value) is int else str(value)


def _resume_command(run: RunDirectory) -> str:
    return f"superdex train --resume {shlex.quote(str(run.path))}"


def _tell_what_is_left(run: RunDirectory) -> None:
    """After divergence, whose message has the remedy: name the last policy, or remove a run that has none."""
    checkpoints = CheckpointStore(run.checkpoints).all()
    if not checkpoints:
        run.abandon()
        return
    play = f"superdex play {shlex.quote(str(checkpoints[-1].path))}"
    print(f"superdex: resumed, this run would diverge again; to see its last policy: {play}", file=sys.stderr)


def _tell_where_to_go_on(run: RunDirectory) -> None:
    """After something went wrong: name the last checkpoint, or remove a run that has none."""
    checkpoint = CheckpointStore(run.checkpoints).newest()
    if checkpoint is None:
        run.abandon()
        return
    print(f"superdex: the last checkpoint is {checkpoint.path}; to continue: {_resume_command(run)}", file=sys.stderr)
