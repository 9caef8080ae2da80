"""A session of training from the console's point of view: what is shown before, meanwhile and after.

Imports torch, so it is itself imported only when all options have been checked.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import fields

from rich.console import Console
from rich.markup import escape

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.failure import note_check
from superdex.lab.apps.recording import Shown, check_camera_of, record
from superdex.lab.apps.tables import make_table
from superdex.lab.apps.train.checkpoints import Checkpoint, CheckpointStore, load_policy
from superdex.lab.apps.train.config import TrainConfig
from superdex.lab.apps.train.curve import draw_learning_curve
from superdex.lab.apps.train.display import make_display
from superdex.lab.apps.train.environments import make_environments
from superdex.lab.apps.train.interruption import Interruption
from superdex.lab.apps.train.learner import learning_threads, make_learner, resume_learner
from superdex.lab.apps.train.policy_file import read_policy
from superdex.lab.apps.train.progress import ProgressLog, ProgressRow
from superdex.lab.apps.train.recipes import recipe_for
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.lab.apps.train.summary import TrainResult, summarize, summary_table, write_summary
from superdex.lab.apps.train.training import Training
from superdex.lab.gym.adapters.errors import TrainingDiverged

__all__ = ["run_session"]

_VIDEO_SECONDS = 10.0


def run_session(
    run: RunDirectory, config: TrainConfig, checkpoint: Checkpoint | None, console: Console, *, video: bool
) -> TrainResult:
    """Train as `config` says, from `checkpoint` if there is one, to the end or until Ctrl-C.

    Raises:
        TrainingDiverged: if a loss or a parameter is no longer finite.
        KeyboardInterrupt: after a second Ctrl-C.
        Exception: what the task raises. Notes on any of these say what is left of the run.
    """
    _show_settings(run, config, console)
    if checkpoint is not None:
        _show_continuation(run, config, checkpoint, console)
    try:
        if video:
            check_camera_of(config.task)
        finished, rows = _train(run, config, checkpoint, console)
    except UserError:
        raise
    except TrainingDiverged as error:
        with suppress(OSError, UserError):  # the divergence is what is to be told
            _draw(run, config, ProgressLog(run.progress_file).read())
        _note_what_is_left(run, error)
        raise
    except BaseException as error:
        _note_where_to_go_on(run, config, error)
        raise
    _draw(run, config, rows)
    result = summarize(run, rows, finished=finished)
    if not finished:
        console.print(f"Interrupted at {result.steps:,} steps, and saved. To continue:")
        console.print(f"  {_resume_command(run)}", markup=False, soft_wrap=True)
        return result
    write_summary(run, result)
    console.print(summary_table(result))
    if video:
        _film(run, console)
    made = [path for path in (run.best_policy, run.curve, run.video) if path.exists()]
    console.print(f"made: {', '.join(map(str, made))}", markup=False, soft_wrap=True)
    return result


def _train(
    run: RunDirectory, config: TrainConfig, checkpoint: Checkpoint | None, console: Console
) -> tuple[bool, list[ProgressRow]]:
    """Whether it came to its end, and the iterations of all sessions."""
    run.remove_leftovers()
    with learning_threads(config.num_learning_threads), make_environments(config) as envs:
        if checkpoint is None:
            training = Training(run, config, make_learner(config, envs))
            begun = 0
        else:
            learner, record = resume_learner(config, envs, checkpoint)
            training = Training(run, config, learner, record)
            CheckpointStore(run.checkpoints).remove_after(record.steps)
            run.write_config(config)
            run.write_versions()
            run.summary.unlink(missing_ok=True)  # it has not come to its end any more
            begun = record.steps
        with (
            Interruption(announce=console.quiet or not console.is_terminal) as interruption,
            make_display(console, begun, config.recipe.total_steps, interruption) as display,
        ):
            return training.run(display, interruption), training.rows


def _draw(run: RunDirectory, config: TrainConfig, rows: list[ProgressRow]) -> None:
    best = read_policy(run.best_policy)[1] if run.best_policy.exists() else None
    draw_learning_curve(rows, best, f"{config.task.name}, seed {config.seed}", run.curve)


def _film(run: RunDirectory, console: Console) -> None:
    """Make the video of the best policy; where that is not possible, or Ctrl-C ends it, say so and go on."""
    loaded = load_policy(run.best_policy)
    try:
        shown = [Shown(loaded.policy)]
        record(loaded.task, shown, run.video, seconds=_VIDEO_SECONDS, quality="nice", quiet=console.quiet)
        return
    except UserError as error:
        why = str(error)
    except KeyboardInterrupt:
        why = f"interrupted. To make one: {_film_command(run)}"
    except Exception as error:  # of the task's own, whose policy is worth more than its film
        why = f"{type(error).__name__}: {str(error).rstrip('.')}. To see where: {_film_command(run)}"
    console.print(" ".join(f"no video: {why}".split()), markup=False, soft_wrap=True)


def _show_settings(run: RunDirectory, config: TrainConfig, console: Console) -> None:
    own, usual = config.recipe, recipe_for(config.task)
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
    for name, old in run.changed_libraries().items():
        lines.append(f"{name} was {old or 'not installed'} before: results may differ")
    console.print("\n".join(lines), markup=False, soft_wrap=True)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:,}" if type(value) is int else str(value)


def _resume_command(run: RunDirectory) -> str:
    return f"superdex train --resume {shlex.quote(str(run.path))}"


def _film_command(run: RunDirectory) -> str:
    return f"superdex play {shlex.quote(str(run.path))} --video FILE.mp4"


def _note_what_is_left(run: RunDirectory, error: TrainingDiverged) -> None:
    """After divergence, whose message has the remedy: name the last policy."""
    checkpoints = CheckpointStore(run.checkpoints).all()
    if checkpoints:
        play = f"superdex play {shlex.quote(str(checkpoints[-1].path))}"
        error.add_note(f"Resumed, this run would diverge again; to see its last policy: {play}")


def _note_where_to_go_on(run: RunDirectory, config: TrainConfig, error: BaseException) -> None:
    """After something went wrong: name what tells more of a task of one's own, and the last checkpoint."""
    if isinstance(error, Exception):
        note_check(error, config.task)
    checkpoint = CheckpointStore(run.checkpoints).newest()
    if checkpoint is not None:
        error.add_note(f"The last checkpoint is {checkpoint.path}; to continue: {_resume_command(run)}")
