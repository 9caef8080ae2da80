"""`superdex run`: a task without a policy, to see what it looks like and what its actions do."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from superdex.lab.apps.actions import SWEEP_SECONDS, Actions, make_actions
from superdex.lab.apps.counts import Count, Number
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.failure import guarded
from superdex.lab.apps.options import (
    CfgOption,
    OutputFile,
    TaskName,
    require_at_least,
    require_company,
    require_duration,
    shown,
)
from superdex.lab.apps.recording import check_camera, check_video_path, film, tile_size
from superdex.lab.apps.tables import make_console, make_table, print_line
from superdex.lab.apps.tasks import Task, configured_task
from superdex.lab.apps.video import caption, tile
from superdex.lab.gym.utils.vector import SceneVectorEnv
from superdex.physics.rendering import Frame, RenderingError, RenderQuality

__all__ = ["Episode", "Run", "episode_table"]

_DEFAULT_SECONDS = 10.0
_MAX_ROWS = 12


@dataclass(frozen=True)
class Episode:
    """What happened in an environment between a reset and an end, or as far as it went."""

    environment: int
    total: float
    """The return: the sum of rewards."""
    length: int
    """Control steps."""
    reason: str | None
    """Why it ended, or None if it was still going."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Run a task with actions that need no policy: in a window, into a video, or for its returns alone."""

    task: TaskName
    """What to run."""
    cfg: CfgOption = ()
    """Fields of the task's configuration, as in --cfg steps_per_episode=500 randomize_physics=0.2."""
    actions: Actions = "random"
    """random: drawn anew in every step; zero; sweep: one entry after another goes slowly through its range."""
    num_envs: Number = 1
    """Environments; a video shows all of them in a grid, a window the first."""
    num_steps: Annotated[Count, shown("N", "see --seconds")] = None
    """Control steps to take."""
    seconds: Annotated[float | None, shown("S", "10, or until the window is closed")] = None
    """Simulated time to run for [s]; not together with --num_steps."""
    video: OutputFile = None
    """Write a video to this .mp4 file."""
    video_quality: RenderQuality = "nice"
    """Of the video's frames: "nice" has shadows and smooth edges, "fast" takes a sixth of the time on a CPU."""
    viewer: bool = False
    """Show it in a window, at the pace of real time."""
    seed: Number = 0
    """Environment i is reset with the seed seed + i; random actions follow from it, too."""

    def run(self) -> int:
        """Run and print a table of episodes; returns the exit code."""
        task = configured_task(self.task, self.cfg)
        self._check()
        return guarded(task, lambda: self._show(task))

    def _show(self, task: Task) -> None:
        factories = task.factories(self.num_envs, **self._rendering())
        with SceneVectorEnv(factories, autoreset_mode=AutoresetMode.SAME_STEP) as envs:
            episodes = self._roll_out(task, envs)
        console = make_console()
        console.print(episode_table(f"{task.name}, {self.actions} actions", episodes))
        if self.video is not None:
            print_line(console, f"video: {self.video}")
        elif not self.viewer:
            print_line(console, "To see it, add --video FILE.mp4, or --viewer where there is a display.")

    def _check(self) -> None:
        """Raise before time is wasted."""
        require_at_least(self, num_envs=1, num_steps=1, seed=0)
        require_company(self, "video", "video_quality")
        if self.seconds is not None:
            require_duration("seconds", self.seconds)
        if self.seconds is not None and self.num_steps is not None:
            raise UserError("--num_steps and --seconds both say how long to run: give one of them.")
        if self.video is not None:
            check_video_path("video", self.video)

    def _rendering(self) -> dict[str, Any]:
        """The fields of the task's configuration that a video asks for."""
        if self.video is None:
            return {}
        size = tile_size(self.num_envs)
        return {"render_mode": "rgb_array", "render_size": size, "render_quality": self.video_quality}

    def _roll_out(self, task: Task, envs: SceneVectorEnv) -> list[Episode]:
        dt = float(envs.get_attr("dt")[0])
        actions = make_actions(self.actions, envs.single_action_space, self.num_envs, dt, self.seed)
        if self.video is not None or self.viewer:
            check_camera(envs.envs[0])
        envs.reset(seed=self.seed)
        log, steps = _Log(self.num_envs), self._steps(dt)
        with ExitStack() as stack:
            if self.video is not None:
                take = stack.enter_context(film(self.video, dt=dt, num_steps=len(steps)))
            else:
                take = None
                stack.enter_context(Console(stderr=True).status(f"running {task.name}"))
            for step in steps:
                if take is not None:
                    take(step, lambda: self._picture(envs, step * dt))  # noqa: B023 (called before the next step)
                if self.viewer and not _is_seen(envs):
                    break
                result = envs.step(actions(step))
                log.add(result.reward, result.terminated, result.truncated, result.info)
        return log.episodes()

    def _steps(self, dt: float) -> range:
        """The numbers of the steps to take: without end for a window, if nothing else is said."""
        num_steps = self.num_steps
        if num_steps is None and self.seconds is None and self.viewer and self.video is None:
            num_steps = 2**62
        return range(num_steps or max(1, round((self.seconds or _DEFAULT_SECONDS) / dt)))

    def _picture(self, envs: SceneVectorEnv, time: float) -> Frame:
        picture = tile(envs.render())
        if self.actions != "sweep":
            return picture
        size = envs.single_action_space.shape[0]
        return caption(picture, f"action {int(time / SWEEP_SECONDS) % size + 1} of {size}")


def _is_seen(envs: SceneVectorEnv) -> bool:
    """Show the first environment in its window; returns whether that is still open."""
    try:
        (seen,) = envs.call_on([0], "show_in_window")
    except RenderingError as error:
        raise UserError(f"--viewer: {error}") from error
    return seen


class _Log:
    """Episodes as they come out of the steps of a vector environment in SAME_STEP mode."""

    def __init__(self, num_envs: int) -> None:
        self._finished: list[Episode] = []
        self._returns, self._lengths = np.zeros(num_envs), np.zeros(num_envs, np.int64)

    def add(self, reward: NDArray, terminated: NDArray, truncated: NDArray, info: dict) -> None:
        self._returns += reward
        self._lengths += 1
        for row in np.flatnonzero(terminated | truncated).tolist():
            kind = "terminated_reason" if terminated[row] else "truncated_reason"
            reason = str(info["final_info"][kind][row])
            self._finished.append(Episode(row, float(self._returns[row]), int(self._lengths[row]), reason))
            self._returns[row] = self._lengths[row] = 0

    def episodes(self) -> list[Episode]:
        """Those that ended, then those still going."""
        going = zip(self._returns.tolist(), self._lengths.tolist(), strict=True)
        return self._finished + [Episode(row, total, n, None) for row, (total, n) in enumerate(going) if n]


def episode_table(title: str, episodes: list[Episode]) -> Table:
    """A row per episode, of which the first few are shown."""
    hidden = len(episodes) - _MAX_ROWS
    table = make_table(
        escape(title), "environment", "return", "length", "ended by",
        text=["ended by"], caption=f"and {hidden:,} more" if hidden > 0 else None,
    )  # fmt: skip
    for episode in episodes[:_MAX_ROWS]:
        reason = "still going" if episode.reason is None else escape(episode.reason)
        table.add_row(str(episode.environment), f"{episode.total:,.1f}", f"{episode.length:,}", reason)
    return table
