"""`superdex history`: how a policy came to do what it does, in one video of the checkpoints side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from superdex.lab.apps.counts import Number
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.evaluation import require_fit
from superdex.lab.apps.failure import guarded
from superdex.lab.apps.options import Seconds, require_at_least, require_duration, shown
from superdex.lab.apps.recording import Shown, check_video_path, record
from superdex.lab.apps.tables import make_console, print_line
from superdex.lab.apps.train.checkpoints import Checkpoint, CheckpointStore, LoadedPolicy, load_policy
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.physics.rendering import RenderQuality

__all__ = ["History"]


@dataclass(frozen=True, kw_only=True)
class History:
    """Film the checkpoints of a run side by side: from the untrained policy to the last.

    All begin in the same state and are labelled with iteration, steps and return in training.
    """

    run_dir: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The directory of a run."""
    video: Annotated[Path | None, shown("FILE", "RUN/history.mp4")] = None
    """Write the video to this .mp4 file."""
    num_checkpoints: Number = 9
    """How many checkpoints to show at most, evenly chosen, the first and the last among them."""
    video_seconds: Seconds = 10.0
    """Length of the video, in simulated time [s]."""
    video_quality: RenderQuality = "nice"
    """Of the video's frames: "nice" has shadows and smooth edges, "fast" takes a sixth of the time on a CPU."""
    seed: Number = 0
    """All environments are reset with this seed."""

    def run(self) -> int:
        """Film; returns the exit code."""
        require_at_least(self, num_checkpoints=1, seed=0)
        require_duration("video_seconds", self.video_seconds)
        run = RunDirectory.open(self.run_dir)
        path = self.video if self.video is not None else self.run_dir / "history.mp4"
        check_video_path("video", path)
        loaded = [
            load_policy(each.path) for each in spread(CheckpointStore(run.checkpoints).all(), self.num_checkpoints)
        ]
        if not loaded:
            raise UserError(f"The run in {self.run_dir} has no checkpoint yet.")
        return guarded(loaded[0].task, lambda: self._film(loaded, path))

    def _film(self, loaded: list[LoadedPolicy], path: Path) -> None:
        task = loaded[0].task
        require_fit(task, loaded[0].policy)
        record(
            task, [Shown(each.policy, _caption(each)) for each in loaded], path,
            seconds=self.video_seconds, seed=self.seed, quality=self.video_quality, alike=True,
        )  # fmt: skip
        print_line(make_console(), f"video: {path}")


def spread(checkpoints: list[Checkpoint], count: int) -> list[Checkpoint]:
    """At most `count` of them, evenly chosen and in order, the first and the last among them (the last, if one)."""
    if len(checkpoints) <= count:
        return checkpoints
    first = 0 if count > 1 else len(checkpoints) - 1
    return [checkpoints[round(index)] for index in np.linspace(first, len(checkpoints) - 1, count)]


def _caption(loaded: LoadedPolicy) -> str:
    info = loaded.info
    trained = "none yet" if info.return_mean is None else f"{info.return_mean:,.0f}"
    return f"iteration {info.iteration:,}, {info.steps:,} steps\nreturn in training: {trained}"
