"""`superdex history`: how a policy came to do what it does, in one video of the checkpoints side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich.console import Console

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.recording import Shown, check_video_path, record
from superdex.lab.apps.tables import make_console
from superdex.lab.apps.train.checkpoints import Checkpoint, CheckpointStore, LoadedPolicy, load_policy
from superdex.lab.apps.train.run_directory import RunDirectory

__all__ = ["History"]


def _shown(metavar: str, default: str) -> Any:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


@dataclass(frozen=True, kw_only=True)
class History:
    """Film the checkpoints of a run side by side: from the untrained policy to the last.

    All begin in the same state and are labelled with iteration, steps and return in training.
    """

    run_dir: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The directory of a run."""
    video: Annotated[Path | None, _shown("FILE", "RUN/history.mp4")] = None
    """Write to this .mp4 file."""
    num_checkpoints: int = 9
    """How many checkpoints to show at most, evenly chosen, the first and the last among them."""
    seconds: float = 10.0
    """Length of the video, in simulated time [s]."""
    quality: Literal["fast", "nice"] = "nice"
    """Frames that are "fast" lack shadows and smooth edges, and take a sixth of the time on a CPU."""
    seed: int = 0
    """Of the environments."""

    def run(self) -> int:
        """Film; returns the exit code."""
        if self.num_checkpoints < 1:
            raise UserError(f"--num_checkpoints must be at least 1, got {self.num_checkpoints}.")
        if not 0 < self.seconds < float("inf"):
            raise UserError(f"--seconds must be positive and finite, got {self.seconds}.")
        run = RunDirectory.open(self.run_dir)
        path = self.video if self.video is not None else self.run_dir / "history.mp4"
        check_video_path("video", path)
        loaded = [
            load_policy(each.path) for each in spread(CheckpointStore(run.checkpoints).all(), self.num_checkpoints)
        ]
        if not loaded:
            raise UserError(f"The run in {self.run_dir} has no checkpoint yet.")
        with Console(stderr=True).status(f"filming {len(loaded)} checkpoints"):
            shown = [Shown(each.policy, _caption(each)) for each in loaded]
            record(loaded[0].task, shown, path, seconds=self.seconds, seed=self.seed, quality=self.quality, alike=True)
        make_console().print(f"video: {path}", markup=False)
        return 0


def spread(checkpoints: list[Checkpoint], count: int) -> list[Checkpoint]:
    """At most `count` of them, evenly chosen and in order, the first and the last among them (the last, if one)."""
    if len(checkpoints) <= count:
        return checkpoints
    first = 0 if count > 1 else len(checkpoints) - 1
    return [checkpoints[round(index)] for index in np.linspace(first, len(checkpoints) - 1, count)]


def _caption(loaded: LoadedPolicy) -> str:
    info = loaded.info
    trained = "none yet" if info.return_mean is None else f"{info.return_mean:,.0f}"
    return f"iteration {info.iteration:,}, {info.steps:,} steps\nreturn {trained}"
