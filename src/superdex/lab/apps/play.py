"""`superdex play`: how good a policy is, what it looks like, and how to take it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from superdex.lab.apps.counts import Number
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.evaluation import Episodes, evaluate, require_fit
from superdex.lab.apps.failure import guarded
from superdex.lab.apps.onnx_export import export_onnx, require_onnx_extra
from superdex.lab.apps.options import (
    OutputFile,
    Seconds,
    require_at_least,
    require_company,
    require_duration,
    require_writable,
)
from superdex.lab.apps.recording import Shown, check_camera_of, check_video_path, record
from superdex.lab.apps.tables import make_console, make_table, print_line
from superdex.lab.apps.train.checkpoints import LoadedPolicy, load_policy
from superdex.physics.rendering import RenderQuality

__all__ = ["Play"]


@dataclass(frozen=True, kw_only=True)
class Play:
    """Evaluate a trained policy: returns and lengths of episodes, each counted once.

    How many episodes each environment plays is decided beforehand, so that short ones are not preferred.
    """

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The directory of a run, whose best policy is taken, or of one of its checkpoints."""
    num_episodes: Number = 100
    """Episodes to play, all of which count; 0 for none."""
    seed: Number = 0
    """Environment i is reset with the seed seed + i; the noise of --stochastic follows from it, too."""
    stochastic: bool = False
    """Draw actions as in training, rather than take their mean."""
    video: OutputFile = None
    """Write a video to this .mp4 file."""
    num_video_envs: Number = 1
    """Environments in the video, in a grid."""
    video_seconds: Seconds = 10.0
    """Length of the video, in simulated time [s]."""
    video_quality: RenderQuality = "nice"
    """Of the video's frames: "nice" has shadows and smooth edges, "fast" takes a sixth of the time on a CPU."""
    onnx: OutputFile = None
    """Write the policy, normalisation included, to this .onnx file, checked against the policy."""

    def run(self) -> int:
        """Evaluate, film and export as asked for; returns the exit code."""
        self._check()
        loaded = load_policy(self.path)
        return guarded(loaded.task, lambda: self._play(loaded))

    def _play(self, loaded: LoadedPolicy) -> None:
        require_fit(loaded.task, loaded.policy)
        if self.video is not None:
            check_camera_of(loaded.task)
        policy = replace(loaded.policy, deterministic=False, seed=self.seed) if self.stochastic else loaded.policy
        console = make_console()
        print_line(console, f"{loaded.task.task_id}: {loaded.info.label} in training ({loaded.path})")
        if self.num_episodes:
            with Console(stderr=True).status(f"playing {self.num_episodes:,} episodes"):
                episodes = evaluate(loaded.task, policy, self.num_episodes, seed=self.seed)
            console.print(episode_table(f"{self.num_episodes:,} episodes of {loaded.task.name}", episodes))
        if self.video is not None:
            shown = [Shown(policy)] * self.num_video_envs
            record(
                loaded.task, shown, self.video,
                seconds=self.video_seconds, seed=self.seed, quality=self.video_quality,
            )  # fmt: skip
            print_line(console, f"video: {self.video}")
        if self.onnx is not None:
            self._export(loaded, self.onnx, console)

    def _check(self) -> None:
        """Raise before time is wasted."""
        require_at_least(self, num_episodes=0, seed=0, num_video_envs=1)
        require_duration("video_seconds", self.video_seconds)
        require_company(self, "video", "num_video_envs", "video_seconds", "video_quality")
        if self.video is not None:
            check_video_path("video", self.video)
        if self.onnx is not None:
            require_onnx_extra()
            require_writable("onnx", self.onnx, ".onnx")

    def _export(self, loaded: LoadedPolicy, path: Path, console: Console) -> None:
        env = loaded.task.make()
        shape = env.observation_space.shape
        env.close()
        try:
            difference = export_onnx(loaded.policy, shape, path)
        except OSError as error:
            raise UserError(f"--onnx {path} cannot be written: {error.strerror or error}.") from error
        print_line(console, f"ONNX: {path}; its actions differ from the policy's by at most {difference:.1e}")


def episode_table(title: str, episodes: Episodes) -> Table:
    """Return and length, and the reasons for which episodes ended."""
    shares = "; ".join(f"{reason}: {count:,}" for reason, count in episodes.count_reasons())
    table = make_table(escape(title), "", "mean", "std", "min", "max", caption=f"ended by {escape(shares)}")
    for name, values in (("return", episodes.returns), ("length", episodes.lengths)):
        figures = (values.mean(), values.std(), values.min(), values.max())
        table.add_row(name, *(f"{figure:,.1f}" for figure in figures))
    return table
