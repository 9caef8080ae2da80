"""`superdex play`: how good a policy is, what it looks like, and how to take it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.evaluation import Episodes, evaluate
from superdex.lab.apps.onnx_export import export_onnx, require_onnx_extra
from superdex.lab.apps.recording import Shown, check_video_path, record
from superdex.lab.apps.tables import make_console, make_table
from superdex.lab.apps.train.checkpoints import LoadedPolicy, load_policy

__all__ = ["Play"]


def _file(default: str = "none") -> Any:
    return tyro.conf.arg(metavar="FILE", help_behavior_hint=f"(default: {default})")


@dataclass(frozen=True, kw_only=True)
class Play:
    """Evaluate a trained policy: returns and lengths of episodes, each counted once.

    How many episodes each environment plays is decided beforehand, so that short ones are not preferred.
    """

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The directory of a run, whose best policy is taken, or of one of its checkpoints."""
    num_episodes: int = 100
    """Episodes to play, all of which count; 0 for none."""
    seed: int = 0
    """Of the environments, and of the actions' noise with --stochastic."""
    stochastic: bool = False
    """Draw actions as in training, rather than take their mean."""
    video: Annotated[Path | None, _file()] = None
    """Write a video to this .mp4 file."""
    num_video_envs: int = 1
    """Environments in the video, in a grid."""
    video_seconds: float = 10.0
    """Length of the video, in simulated time [s]."""
    video_quality: Literal["fast", "nice"] = "nice"
    """Frames that are "fast" lack shadows and smooth edges, and take a sixth of the time on a CPU."""
    onnx: Annotated[Path | None, _file()] = None
    """Write the policy, normalisation included, to this .onnx file, checked against the policy."""

    def run(self) -> int:
        """Evaluate, film and export as asked for; returns the exit code."""
        self._check()
        loaded = load_policy(self.path)
        policy = replace(loaded.policy, deterministic=False, seed=self.seed) if self.stochastic else loaded.policy
        console = make_console()
        console.print(f"{loaded.task.task_id}: {loaded.info.label} in training ({loaded.path})", markup=False)
        if self.num_episodes:
            with Console(stderr=True).status(f"playing {self.num_episodes:,} episodes"):
                episodes = evaluate(loaded.task, policy, self.num_episodes, seed=self.seed)
            console.print(episode_table(f"{self.num_episodes:,} episodes of {loaded.task.name}", episodes))
        if self.video is not None:
            with Console(stderr=True).status(f"filming {self.video}"):
                shown = [Shown(policy)] * self.num_video_envs
                record(
                    loaded.task, shown, self.video,
                    seconds=self.video_seconds, seed=self.seed, quality=self.video_quality,
                )  # fmt: skip
            console.print(f"video: {self.video}", markup=False)
        if self.onnx is not None:
            self._export(loaded, self.onnx, console)
        return 0

    def _check(self) -> None:
        """Raise before time is wasted."""
        limits = {"num_episodes": 0, "seed": 0, "num_video_envs": 1}
        for option, least in limits.items():
            if getattr(self, option) < least:
                raise UserError(f"--{option} must be at least {least}, got {getattr(self, option)}.")
        if not 0 < self.video_seconds < float("inf"):
            raise UserError(f"--video_seconds must be positive and finite, got {self.video_seconds}.")
        if self.video is not None:
            check_video_path("video", self.video)
        if self.onnx is not None:
            require_onnx_extra()
            if not self.onnx.absolute().parent.is_dir():
                raise UserError(f"--onnx {self.onnx}: there is no directory {self.onnx.parent}.")

    def _export(self, loaded: LoadedPolicy, path: Path, console: Console) -> None:
        env = loaded.task.make()
        shape = env.observation_space.shape
        env.close()
        difference = export_onnx(loaded.policy, shape, path)
        console.print(f"ONNX: {path}; its actions differ from the policy's by at most {difference:.1e}", markup=False)


def episode_table(title: str, episodes: Episodes) -> Table:
    """Return and length, and the reasons for which episodes ended."""
    shares = "; ".join(f"{reason}: {count:,}" for reason, count in episodes.count_reasons())
    table = make_table(escape(title), "", "mean", "std", "min", "max", caption=f"ended by {escape(shares)}")
    for name, values in (("return", episodes.returns), ("length", episodes.lengths)):
        figures = (values.mean(), values.std(), values.min(), values.max())
        table.add_row(name, *(f"{figure:,.1f}" for figure in figures))
    return table
