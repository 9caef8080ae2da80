"""The progress table for TensorBoard."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Self

from torch.utils.tensorboard import SummaryWriter

from superdex.lab.apps.train.progress import ProgressRow

__all__ = ["Board"]

_GROUPS = {
    "rollout": ("return_mean", "return_std", "return_low", "return_high", "length_mean", "episodes"),
    "train": (
        *("learning_rate", "policy_loss", "value_loss", "entropy"),
        *("approx_kl", "clip_fraction", "explained_variance", "action_std"),
    ),
    "time": ("steps_per_second", "wall_seconds", "stepping_seconds", "learning_seconds"),
}
_FLUSH_SECONDS = 10


class Board:
    """Event files in a directory; a resumed run's file hides what an earlier one has of later steps.

    Args:
        directory: made if it is not there.
        steps: control steps before this session.
    """

    def __init__(self, directory: Path, steps: int) -> None:
        self._writer = SummaryWriter(str(directory), purge_step=steps + 1, flush_secs=_FLUSH_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._writer.close()

    def add(self, row: ProgressRow) -> None:
        """Add an iteration."""
        values = asdict(row)
        for group, names in _GROUPS.items():
            for name in names:
                if not math.isnan(values[name]):
                    self._writer.add_scalar(f"{group}/{name}", values[name], row.steps)
