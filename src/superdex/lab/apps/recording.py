"""Videos of policies at work, one environment or a grid of them, followed by the task's camera.

    record(task, [Shown(policy)] * 4, Path("play.mp4"), seconds=10, seed=0)

Episodes that end in between are followed by the next, so that a policy that falls is seen to try again.
Each tile has a caption, or says the return of the episode so far.

`film` is the part that any rollout needs: it takes a frame when one is due, and shows how many are done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.options import require_writable
from superdex.lab.apps.tasks import Task
from superdex.lab.apps.video import Frame, VideoWriter, caption, require_video_extra, tile
from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.rollouts import GaussianMlpPolicy
from superdex.lab.gym.utils.vector import SceneVectorEnv
from superdex.physics.rendering import RenderingError, RenderQuality, make_camera

__all__ = ["Shown", "check_camera", "check_camera_of", "check_video_path", "film", "record", "tile_size"]

_MAX_RATE = 50.0
_WIDTHS = {1: 640, 2: 480}
"""Widths of tiles by the number of columns [pixels]; of more columns, all together have about `_WIDTH`."""
_WIDTH, _LEAST_WIDTH = 1200, 80


@dataclass(frozen=True, eq=False)
class Shown:
    """A policy that a tile shows."""

    policy: GaussianMlpPolicy
    """Acts in the tile's environment."""
    caption: str | None = None
    """What the tile says; None for the return of the episode so far."""


def record(
    task: Task,
    shown: Sequence[Shown],
    path: Path,
    *,
    seconds: float,
    seed: int = 0,
    quality: RenderQuality = "fast",
    alike: bool = False,
    quiet: bool = False,
) -> None:
    """Write a video with a tile for each of `shown`; on a terminal, show how far it is.

    Args:
        task: what all of them play.
        shown: a policy for each tile.
        path: an `.mp4` file; it appears only when the video is whole.
        seconds: of simulated time, which the video shows at its own pace.
        seed: tile i is reset with the seed `seed + i`.
        quality: of frames; "fast" lacks shadows and smooth edges, and takes a sixth of the time on a CPU.
        alike: whether all tiles are reset with `seed` instead, to compare policies.
        quiet: whether to show nothing, even on a terminal.

    Raises:
        UserError: if the extra is missing, the model has no such camera, `path` cannot be written, or the machine
            cannot draw.
    """
    require_video_extra()
    options = {"render_mode": "rgb_array", "render_size": tile_size(len(shown)), "render_quality": quality}
    with SceneVectorEnv(task.factories(len(shown), **options), autoreset_mode=AutoresetMode.SAME_STEP) as envs:
        check_camera(envs.envs[0])
        dt = float(envs.get_attr("dt")[0])
        num_steps = max(1, round(seconds / dt))
        observation, _ = envs.reset(seed=[seed] * len(shown) if alike else seed)
        returns = np.zeros(len(shown))
        with film(path, dt=dt, num_steps=num_steps, quiet=quiet) as take:
            for step in range(num_steps):
                take(step, lambda: _picture(envs.render(), shown, returns))
                actions = np.concatenate([_act(each, observation, step, row) for row, each in enumerate(shown)])
                observation, reward, terminated, truncated, _ = envs.step(actions)
                returns[:] = np.where(terminated | truncated, 0.0, returns + reward)


@contextmanager
def film(
    path: Path, *, dt: float, num_steps: int, quiet: bool = False
) -> Iterator[Callable[[int, Callable[[], Frame]], None]]:
    """A video of a rollout, at its own pace; on a terminal, a bar shows how many of its frames are done.

    Args:
        path: an `.mp4` file; it appears only when the block ends without an exception.
        dt: duration of a control step [s]; no more frames are taken than players show in a second.
        num_steps: how many steps there will be.
        quiet: whether to show nothing, even on a terminal.

    Yields:
        What is to be called before each step, with its number and what draws a frame, which it does if one is due.

    Raises:
        UserError: if the extra is missing, `path` cannot be written, or the machine cannot draw.
    """
    stride = math.ceil(1 / dt / _MAX_RATE)
    num_frames = math.ceil(num_steps / stride)
    progress = _progress(f"filming {path.name}", num_frames, quiet)
    with VideoWriter(path, fps=1 / dt / stride) as video, progress as advance:

        def take(step: int, draw: Callable[[], Frame]) -> None:
            if step % stride == 0:
                try:
                    frame = draw()
                except RenderingError as error:
                    raise UserError(f"No video can be drawn on this machine: {error}") from error
                video.write(frame)
                advance()

        yield take


def tile_size(num_tiles: int) -> tuple[int, int]:
    """Width and height of each tile in a grid of that many [pixels], in which the whole fits on a screen."""
    columns = math.ceil(math.sqrt(num_tiles))
    width = _WIDTHS.get(columns, max(_WIDTH // columns, _LEAST_WIDTH))
    return width, width * 3 // 4


def check_video_path(option: str, path: Path) -> None:
    """Raise UserError unless a video can be written to `path`, before the time to make one is spent."""
    require_video_extra()
    require_writable(option, path, ".mp4")


def check_camera_of(task: Task) -> None:
    """`check_camera` before the task's environments are made."""
    with closing(task.make()) as env:
        check_camera(env)


def check_camera(env: gymnasium.Env) -> None:
    """Raise UserError unless a task's model has the camera, or the body to follow, that pictures are to be taken by."""
    task = env.unwrapped
    assert isinstance(task, MochiEnv)  # so are those of all our commands
    named = task.cfg.render_camera is not None
    try:
        make_camera(task.scene.simulated_model, task.cfg.render_camera if named else task.view)
    except ValueError as error:
        where = "render_camera" if named else f"{type(task).__name__}.view"
        raise UserError(f"{where}: {error}") from error


@contextmanager
def _progress(title: str, num_frames: int, quiet: bool) -> Iterator[Callable[[], object]]:
    """A bar on standard error, if that is a terminal; yields what counts a frame. It is gone in the end."""
    console = Console(stderr=True)
    title_column = TextColumn("{task.description}", markup=False)
    columns = (title_column, BarColumn(), MofNCompleteColumn(), TextColumn("frames"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_interactive) as progress:
        bar = progress.add_task(title, total=num_frames)
        yield lambda: progress.advance(bar)


def _act(each: Shown, observation: np.ndarray, step: int, row: int) -> np.ndarray:
    place = slice(row, row + 1)
    return each.policy.bounded(each.policy(observation[place], step, place))


def _picture(frames: Sequence[Frame], shown: Sequence[Shown], returns: np.ndarray) -> Frame:
    return tile(
        [
            caption(frame, f"return {so_far:,.0f}" if each.caption is None else each.caption)
            for frame, each, so_far in zip(frames, shown, returns, strict=True)
        ]
    )
