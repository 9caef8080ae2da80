"""The loop of `superdex train`: iterate, log, keep the best policy, save checkpoints, stop when asked.

Imports torch, so it is itself imported only when training begins.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from superdex.lab.apps.atomic import replace_file
from superdex.lab.apps.train.board import Board
from superdex.lab.apps.train.checkpoints import CheckpointRecord, CheckpointStore
from superdex.lab.apps.train.config import TrainConfig
from superdex.lab.apps.train.display import Display
from superdex.lab.apps.train.fairness import FairWindow
from superdex.lab.apps.train.interruption import Interruption
from superdex.lab.apps.train.learner import losses, write_learner
from superdex.lab.apps.train.policy_file import PolicyInfo, finite_or_none, save_policy
from superdex.lab.apps.train.progress import ProgressLog, ProgressRow
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.lab.gym.adapters.ppo import BatchPPO
from superdex.lab.gym.envs.env_state import EnvState
from superdex.lab.gym.rollouts import GaussianMlpPolicy
from superdex.lab.gym.utils.vector import RestartUntoldError

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
        """The best mean return so far; None until a mean is fair."""
        self._window = FairWindow(self._start.first_episodes)
        self._unsaved_best: tuple[GaussianMlpPolicy, PolicyInfo] | None = None
        self._saved_steps = self._start.steps if start is not None else None
        self._put_off_steps: int | None = None

    def run(self, display: Display, interruption: Interruption) -> bool:
        """Train until the end, or until an interruption is requested; returns whether it got to the end.

        A checkpoint is saved before the first iteration, whenever one is due, and last. If a worker is found
        dead in that moment, the learner has not been told yet that its episodes ended, and the checkpoint is put off
        to the end of the next iteration; at the end of the run it is one to look at, not to resume from.

        However it ends, the best policy so far is in its file then.

        Raises:
            TrainingDiverged: if a loss or a parameter is no longer finite; the checkpoints before are good.
        """
        total = self._config.recipe.total_steps
        try:
            self._iterate(total, display, interruption)
        except BaseException:
            with suppress(OSError):  # such as that of a full disk, which ended the run
                self._write_unsaved_best()
            raise
        if not self._save_if_new():
            self._save(None)
        if self.best_return is None:
            self._write_best(self._learner.actor(), self._info())
        return self._learner.num_timesteps >= total

    def _iterate(self, total: int, display: Display, interruption: Interruption) -> None:
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
                stopping = interruption.requested
                saved = (stopping or self._is_due(row.steps)) and self._save_if_new()
                if stopping and saved:
                    break
                acting = self._learner.actor()

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
        """Keep the policy that acted in this iteration if no mean return so far was better."""
        fair = self._window.is_fair(self._learner.statistics, self._learner.control_steps)
        if fair and (self.best_return is None or row.return_mean >= self.best_return):
            self.best_return = row.return_mean
            info = PolicyInfo(
                task_id=self._config.task_id,
                cfg=self._config.cfg,
                steps=row.steps - self._config.recipe.steps_per_iteration,
                iteration=row.iteration - 1,
                return_mean=row.return_mean,
                length_mean=row.length_mean,
            )
            self._unsaved_best = acting, info

    def _is_due(self, steps: int) -> bool:
        every = self._config.checkpoint_every
        return self._saved_steps is None or steps // every > self._saved_steps // every

    def _save_if_new(self) -> bool:
        """Save a checkpoint, unless there is one of this very moment; False if a worker was found dead instead."""
        if self._saved_steps == self._learner.num_timesteps:
            return True
        if self._put_off_steps == self._learner.num_timesteps:
            return False
        envs = self._learner.adapter.envs
        try:
            environments = envs.capture_state()
        except RestartUntoldError:
            self._put_off_steps = self._learner.num_timesteps
            return False
        self._save(environments)
        return True

    def _save(self, environments: EnvState | None) -> None:
        self._write_unsaved_best()
        self._log.sync()
        record = CheckpointRecord(
            steps=self._learner.num_timesteps,
            iteration=self._learner.iteration,
            **self._times(perf_counter()),
            best_return=self.best_return,
            first_episodes=self._window.first_episodes,
        )
        self._store.save(
            record, self._learner.actor(), self._info(), partial(write_learner, self._learner, environments)
        )
        self._saved_steps = record.steps

    def _info(self) -> PolicyInfo:
        return PolicyInfo(
            task_id=self._config.task_id,
            cfg=self._config.cfg,
            steps=self._learner.num_timesteps,
            iteration=self._learner.iteration,
            return_mean=finite_or_none(self._learner.statistics.mean_return),
            length_mean=finite_or_none(self._learner.statistics.mean_length),
        )

    def _write_unsaved_best(self) -> None:
        if self._unsaved_best is not None:
            self._write_best(*self._unsaved_best)
            self._unsaved_best = None

    def _write_best(self, policy: GaussianMlpPolicy, info: PolicyInfo) -> None:
        replace_file(self._run.best_policy, lambda path: save_policy(path, policy, info))


class _BeforeTraining(BaseCallback):
    """Calls `action` when the environments have been reset and nothing has been learned yet."""

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__()
        self._action = action

    def _on_training_start(self) -> None:
        self._action()

    def _on_step(self) -> bool:
        return True
