"""The loop of `superdex train`: iterate, log, keep the best policy, save checkpoints, stop when asked.

Imports torch, so it is itself imported only when training begins.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from superdex.lab.apps.train.atomic import replace_file
from superdex.lab.apps.train.board import Board
from superdex.lab.apps.train.checkpoints import Checkpoint, CheckpointRecord, CheckpointStore
from superdex.lab.apps.train.config import TrainConfig
from superdex.lab.apps.train.display import Display
from superdex.lab.apps.train.interruption import Interruption
from superdex.lab.apps.train.learner import losses, write_learner
from superdex.lab.apps.train.policy_file import PolicyInfo, finite_or_none, save_policy
from superdex.lab.apps.train.progress import ProgressLog, ProgressRow
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.lab.gym.adapters.ppo import BatchPPO
from superdex.lab.gym.rollouts import GaussianMlpPolicy

__all__ = ["Training"]

_FROM_THE_START = CheckpointRecord(
    steps=0, iteration=0, wall_seconds=0, stepping_seconds=0, learning_seconds=0, best_return=None
)


class Training:
    """A session of a run, from its beginning or from a checkpoint.

    Args:
        run: where everything is kept.
        config: the run's configuration.
        learner: made or resumed by it.
        start: the record of the checkpoint that the learner was resumed from, if it was.
    """

    def __init__(
        self, run: RunDirectory, config: TrainConfig, learner: BatchPPO, start: CheckpointRecord | None = None
    ) -> None:
        self._run = run
        self._config = config
        self._learner = learner
        self._start = start or _FROM_THE_START
        self._clocks_before = learner.stepping_seconds, learner.learning_seconds
        self._store = CheckpointStore(run.checkpoints)
        self._log = ProgressLog(run.progress_file)
        self._log.rewind(self._start.iteration)
        self.rows = self._log.read()
        """The course of the run so far."""
        self.best_return = self._start.best_return
        """The best mean return so far; None until enough episodes have ended."""
        self._unsaved_best: tuple[GaussianMlpPolicy, PolicyInfo] | None = None
        self._saved_steps = self._start.steps if start is not None else None

    def run(self, display: Display, interruption: Interruption) -> bool:
        """Train until the end, or until an interruption is requested; returns whether it got to the end.

        A checkpoint is saved before the first iteration, whenever one is due, and last.

        Raises:
            TrainingDiverged: if a loss or a parameter is no longer finite; the checkpoints before are good.
        """
        total = self._config.recipe.total_steps
        self._begin = self._last_time = perf_counter()
        with Board(self._run.tensorboard, self._start.steps) as board:
            acting = self._learner.actor()
            for _ in self._learner.iterations(total, _BeforeTraining(self._save_if_new)):
                row = self._make_row()
                self._log.append(row)
                self.rows.append(row)
                board.add(row)
                self._note_best(row, acting)
                display.update(row, self.best_return)
                if interruption.requested:
                    break
                if self._is_due(row.steps):
                    self._save_if_new()
                acting = self._learner.actor()
        self._save_if_new()
        if not self._run.best_policy.exists():
            self._write_best(self._learner.actor(), self._info())
        return self._learner.num_timesteps >= total

    def _make_row(self) -> ProgressRow:
        learner, statistics, now = self._learner, self._learner.statistics, perf_counter()
        seconds, self._last_time = now - self._last_time, now
        times = self._times(now)
        returns = statistics.recent_returns
        low, high = np.percentile(returns, (10, 90)) if returns.size else (np.nan, np.nan)
        return ProgressRow(
            iteration=learner.iteration,
            steps=learner.num_timesteps,
            episodes=statistics.num_episodes,
            return_mean=statistics.mean_return,
            return_std=float(returns.std()) if returns.size else np.nan,
            return_low=float(low),
            return_high=float(high),
            length_mean=statistics.mean_length,
            **losses(learner),
            **times,
            steps_per_second=self._config.recipe.steps_per_iteration / seconds,
        )

    def _times(self, now: float) -> dict[str, float]:
        stepping, learning = self._clocks_before
        return {
            "wall_seconds": self._start.wall_seconds + now - self._begin,
            "stepping_seconds": self._start.stepping_seconds + self._learner.stepping_seconds - stepping,
            "learning_seconds": self._start.learning_seconds + self._learner.learning_seconds - learning,
        }

    def _note_best(self, row: ProgressRow, acting: GaussianMlpPolicy) -> None:
        """Keep the policy that acted in this iteration if no return so far was better.

        The first episodes to end are short ones, so a return counts only once there are as many
        episodes as environments, or as many as a mean is taken over.
        """
        statistics, num_envs = self._learner.statistics, self._config.recipe.num_envs
        enough = statistics.num_episodes >= min(num_envs, statistics.window)
        if enough and (self.best_return is None or row.return_mean >= self.best_return):
            self.best_return = row.return_mean
            info = PolicyInfo(
                task_id=self._config.task_id,
                steps=row.steps - self._config.recipe.steps_per_iteration,
                iteration=row.iteration - 1,
                return_mean=row.return_mean,
                length_mean=row.length_mean,
            )
            self._unsaved_best = acting, info

    def _is_due(self, steps: int) -> bool:
        every = self._config.checkpoint_every
        return self._saved_steps is None or steps // every > self._saved_steps // every

    def _save_if_new(self) -> None:
        """Save a checkpoint, unless there is one of this very moment."""
        if self._saved_steps == self._learner.num_timesteps:
            return
        if self._unsaved_best is not None:
            self._write_best(*self._unsaved_best)
            self._unsaved_best = None
        self._log.sync()
        record = CheckpointRecord(
            steps=self._learner.num_timesteps,
            iteration=self._learner.iteration,
            **self._times(perf_counter()),
            best_return=self.best_return,
        )
        self._store.save(record, self._learner.actor(), self._info(), self._fill)
        self._saved_steps = record.steps

    def _fill(self, checkpoint: Checkpoint) -> None:
        write_learner(self._learner, checkpoint)

    def _info(self) -> PolicyInfo:
        return PolicyInfo(
            task_id=self._config.task_id,
            steps=self._learner.num_timesteps,
            iteration=self._learner.iteration,
            return_mean=finite_or_none(self._learner.statistics.mean_return),
            length_mean=finite_or_none(self._learner.statistics.mean_length),
        )

    def _write_best(self, policy: GaussianMlpPolicy, info: PolicyInfo) -> None:
        replace_file(self._run.best_policy, lambda path: save_policy(path, policy, info))


class _BeforeTraining(BaseCallback):
    """Calls `action` when the environments have been reset and nothing has been learned yet."""

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__()
        self._action = action

    def _on_training_start(self) -> None:
        self._action()

    def _on_step(self) -> bool:
        return True
