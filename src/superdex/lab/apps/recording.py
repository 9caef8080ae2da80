"""Videos of policies at work, one environment or a grid of them, followed by the task's camera.

    record(task, [Shown(policy)] * 4, Path("play.mp4"), seconds=10, seed=0)

Episodes that end in between are followed by the next, so that a policy that falls is seen to try again.
Each tile has a caption, or says the return of the episode so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from gymnasium.vector import AutoresetMode

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tasks import Task
from superdex.lab.apps.video import Frame, VideoWriter, label, require_video_extra, tile
from superdex.lab.gym.rollouts import GaussianMlpPolicy
from superdex.lab.gym.utils.vector import SceneVectorEnv

__all__ = ["Shown", "check_video_path", "record"]

_MAX_RATE = 50.0
_SIZES = {1: (640, 480), 4: (480, 360)}  # up to so many tiles
_SMALL = (400, 300)


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
    quality: Literal["fast", "nice"] = "fast",
    alike: bool = False,
) -> int:
    """Write a video with a tile for each of `shown`; returns the number of its frames.

    Args:
        task: what all of them play.
        shown: a policy for each tile.
        path: an `.mp4` file; it appears only when the video is whole.
        seconds: of simulated time, which the video shows at its own pace.
        seed: tile i is reset with the seed `seed + i`.
        quality: of frames; "fast" lacks shadows and smooth edges, and takes a sixth of the time on a CPU.
        alike: whether all tiles are reset with `seed` instead, to compare policies.

    Raises:
        UserError: if the extra is missing, `path` cannot be written, or the machine cannot draw.
    """
    require_video_extra()
    size = next((size for count, size in _SIZES.items() if len(shown) <= count), _SMALL)
    options = {"render_mode": "rgb_array", "render_size": size, "render_quality": quality}
    with SceneVectorEnv(task.factories(len(shown), **options), autoreset_mode=AutoresetMode.SAME_STEP) as envs:
        rate = 1 / envs.get_attr("dt")[0]
        stride = math.ceil(rate / _MAX_RATE)
        observation, _ = envs.reset(seed=[seed] * len(shown) if alike else seed)
        returns = np.zeros(len(shown))
        first = _picture(envs, shown, returns)
        height, width, _ = first.shape
        with VideoWriter(path, (width, height), fps=rate / stride) as video:
            video.write(first)
            for step in range(max(1, round(seconds * rate)) - 1):
                actions = np.concatenate([_act(each, observation, step, row) for row, each in enumerate(shown)])
                observation, reward, terminated, truncated, _ = envs.step(actions)
                returns = np.where(terminated | truncated, 0.0, returns + reward)
                if (step + 1) % stride == 0:
                    video.write(_picture(envs, shown, returns))
        return video.num_frames


def check_video_path(option: str, path: Path) -> None:
    """Raise UserError unless a video can be written to `path`, before the time to make one is spent."""
    require_video_extra()
    if path.suffix.lower() != ".mp4":
        raise UserError(f"--{option} {path}: the name must end in .mp4.")
    if not path.absolute().parent.is_dir():
        raise UserError(f"--{option} {path}: there is no directory {path.parent}.")


def _act(each: Shown, observation: np.ndarray, step: int, row: int) -> np.ndarray:
    place = slice(row, row + 1)
    return each.policy.bounded(each.policy(observation[place], step, place))


def _picture(envs: SceneVectorEnv, shown: Sequence[Shown], returns: np.ndarray) -> Frame:
    try:
        frames = envs.render()
    except RuntimeError as error:
        raise UserError(f"No video can be drawn on this machine: {error}") from error
    labelled = [
        label(frame, f"return {so_far:,.0f}" if each.caption is None else each.caption)
        for frame, each, so_far in zip(frames, shown, returns, strict=True)
    ]
    return labelled[0] if len(labelled) == 1 else tile(labelled)
