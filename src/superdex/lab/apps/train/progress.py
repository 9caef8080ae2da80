"""The course of a training run: a row per iteration, kept in `progress.csv`.

    log = ProgressLog(run.progress_file)
    log.append(row)
    log.rewind(iteration=40)            # a resumed run writes the later rows again
    rows = log.read()

The columns are the fields of `ProgressRow`. Only those of `TIMES` differ between
two runs of one configuration.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import get_type_hints

from superdex.lab.apps.atomic import replace_file, sync
from superdex.lab.apps.errors import UserError

__all__ = ["TIMES", "ProgressLog", "ProgressRow"]

TIMES = ("wall_seconds", "stepping_seconds", "learning_seconds", "steps_per_second")


@dataclass(frozen=True, kw_only=True)
class ProgressRow:
    """What is known after an iteration; a figure that does not exist yet is nan."""

    iteration: int
    """Updates of the policy so far."""
    steps: int
    """Control steps so far, summed over the environments."""
    episodes: int
    """Episodes that have ended so far."""
    return_mean: float
    """Mean return of the last episodes (1000, or as many as there are), each counted once."""
    return_std: float
    """Standard deviation of these returns."""
    return_low: float
    """Their 10th percentile."""
    return_high: float
    """Their 90th percentile."""
    length_mean: float
    """Mean length of the same episodes [control steps]."""
    learning_rate: float
    """Of this iteration's update."""
    policy_loss: float
    """Clipped surrogate loss, mean over the minibatches, as the following."""
    value_loss: float
    """Mean squared error of the value function."""
    entropy: float
    """Entropy of the policy [nat]."""
    approx_kl: float
    """Estimate of the KL divergence between the policy before and during the update [nat]."""
    clip_fraction: float
    """Share of the actions whose probability ratio was clipped."""
    explained_variance: float
    """Share of the returns' variance that the value function explains; at most 1."""
    action_std: float
    """Mean standard deviation of the action noise."""
    wall_seconds: float
    """Duration of training so far, over all sessions [s]."""
    stepping_seconds: float
    """Part of it in which environments were stepped, with the policy that acts [s]."""
    learning_seconds: float
    """Part of it in which policy and value function were evaluated and updated [s]."""
    steps_per_second: float
    """Control steps of this iteration per second of its duration [1/s]."""

    def shares(self) -> tuple[float, float]:
        """The shares of stepping and learning in the wall time."""
        if not self.wall_seconds:
            return 0.0, 0.0
        return self.stepping_seconds / self.wall_seconds, self.learning_seconds / self.wall_seconds


_COLUMNS = [field.name for field in fields(ProgressRow)]
_TYPES = get_type_hints(ProgressRow)


class ProgressLog:
    """The file; each row is handed to the system as soon as it is appended."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, row: ProgressRow) -> None:
        """Add a row at the end."""
        begins = not self._path.exists()
        with self._path.open("a", newline="") as stream:
            writer = csv.writer(stream)
            if begins:
                writer.writerow(_COLUMNS)
            writer.writerow(_texts(row))

    def sync(self) -> None:
        """Wait until the rows are on the disk."""
        if self._path.exists():
            sync(self._path)

    def read(self) -> list[ProgressRow]:
        """The rows so far; one that a killed process left unfinished is not among them.

        Raises:
            UserError: if the file has other columns, or a line is damaged.
        """
        return list(self._rows())

    def rewind(self, iteration: int) -> None:
        """Remove what comes after the row of `iteration`, in whatever state it is.

        Raises:
            UserError: if the file has other columns, or a line before is damaged.
        """
        kept = []
        for row in self._rows():
            if row.iteration <= iteration:
                kept.append(row)
            if row.iteration >= iteration:
                break
        if self._path.exists():
            replace_file(self._path, lambda path: _write(path, kept))

    def _rows(self) -> Iterator[ProgressRow]:
        if not self._path.exists():
            return
        with self._path.open(newline="\n", errors="replace") as stream:
            whole = (line for line in stream if line.endswith("\n"))  # the last one may have been cut off
            for number, line in enumerate(whole, start=1):
                try:
                    texts = _split(line)
                    if number > 1:
                        yield _row(texts)
                except (ValueError, csv.Error) as error:
                    raise UserError(
                        f"{self._path} is damaged in line {number} ({error}). Move it away, and a new one begins at the"
                        " checkpoint."
                    ) from None
                if number == 1 and texts != _COLUMNS:
                    raise UserError(
                        f"{self._path} has other columns than this release writes: {_difference(texts)}. Move it away,"
                        " and a new one begins at the checkpoint."
                    )


def _texts(row: ProgressRow) -> list[str]:
    return ["" if isinstance(value, float) and math.isnan(value) else repr(value) for value in asdict(row).values()]


def _split(line: str) -> list[str]:
    """The values of a line; one with a stray quote is damaged, and does not draw in those that follow."""
    return next(csv.reader([line], strict=True), [])


def _row(texts: list[str]) -> ProgressRow:
    return ProgressRow(**{name: _TYPES[name](text or "nan") for name, text in zip(_COLUMNS, texts, strict=True)})


def _difference(header: list[str]) -> str:
    missing, unknown = [name for name in _COLUMNS if name not in header], [x for x in header if x not in _COLUMNS]
    parts = [f"{what} {', '.join(names)}" for what, names in (("without", missing), ("with", unknown)) if names]
    return " and ".join(parts) or "in another order"


def _write(path: Path, rows: list[ProgressRow]) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(_COLUMNS)
        writer.writerows(_texts(row) for row in rows)
