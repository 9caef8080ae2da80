"""What is seen of a training run while it goes on: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from time import perf_counter
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from superdex.lab.apps.train.interruption import NOTICE, Interruption
from superdex.lab.apps.train.progress import ProgressRow

__all__ = ["Display", "LineDisplay", "LiveDisplay", "describe", "make_display"]

_LINES_PER_RUN = 20


class Display:
    """Shows the course of a run; this one shows nothing.

    Args:
        steps: control steps before this session.
        total: control steps at the end.
    """

    def __init__(self, steps: int, total: int) -> None:
        self.total = total
        self._first = steps
        self._begin = perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Stop showing."""

    def update(self, row: ProgressRow, best: float | None) -> None:
        """Show the latest iteration; `best` is the best mean return so far."""

    def percent(self, steps: int) -> int:
        """How much of the run `steps` are; the last iteration may go a little further than asked for."""
        return min(100, 100 * steps // self.total)

    def seconds_left(self, steps: int) -> float:
        """What the steps from `steps` to the end take at this session's mean speed [s]; nan if there is none yet."""
        done = steps - self._first
        if done <= 0:
            return math.nan
        return max(0, self.total - steps) * (perf_counter() - self._begin) / done


class LineDisplay(Display):
    """A line of plain text every few per cent."""

    def __init__(self, console: Console, steps: int, total: int) -> None:
        super().__init__(steps, total)
        self._console = console
        self._shown = _LINES_PER_RUN * steps // total

    def update(self, row: ProgressRow, best: float | None) -> None:
        """Print a line if it is time for the next."""
        reached = _LINES_PER_RUN * row.steps // self.total
        if reached > self._shown:
            self._shown = reached
            texts = [
                f"{self.percent(row.steps):3d} %",
                f"{row.steps:,} steps",
                *describe(row, best),
                f"{_duration(self.seconds_left(row.steps))} left",
            ]
            self._console.print("  ".join(texts), markup=False, soft_wrap=True)


class LiveDisplay(Display):
    """A bar and two lines of figures, kept up to date at the bottom of a terminal."""

    def __init__(self, console: Console, steps: int, total: int, interruption: Interruption) -> None:
        super().__init__(steps, total)
        self._interruption = interruption
        self._steps = steps
        self._row: ProgressRow | None = None
        self._best: float | None = None
        self._live = Live(self, console=console, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._live.stop()

    def update(self, row: ProgressRow, best: float | None) -> None:
        """Take note of the latest iteration; the terminal follows in a fraction of a second."""
        self._steps, self._row, self._best = row.steps, row, best

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = Table.grid(padding=(0, 2), expand=True)
        line.add_column(ratio=1)
        line.add_column(justify="right", no_wrap=True)
        bar = ProgressBar(total=self.total, completed=min(self._steps, self.total))
        left = _duration(self.seconds_left(self._steps))
        line.add_row(bar, f"{self.percent(self._steps)} %  {self._steps:,} of {self.total:,} steps  {left} left")
        yield line
        yield from self._figures()
        if self._interruption.requested:
            yield Text(NOTICE, style="yellow")

    def _figures(self) -> Iterator[Text]:
        if self._row is None:
            yield Text("collecting the first rollout", style="dim")
            return
        returns, length, speed = describe(self._row, self._best)
        yield Text.assemble((returns, "bold cyan"), "  ", length)
        yield Text(speed, style="dim")


def describe(row: ProgressRow, best: float | None) -> tuple[str, str, str]:
    """Return, episode length and speed in words."""
    if math.isnan(row.return_mean):
        returns, length = "return: no episode has ended yet", "length -"
    else:
        shown = f" (best {best:,.1f})" if best is not None else ""
        returns, length = f"return {row.return_mean:,.1f}{shown}", f"length {row.length_mean:,.1f}"
    stepping, learning = row.shares()
    speed = f"{row.steps_per_second:,.0f} steps/s (stepping {stepping:.0%}, learning {learning:.0%})"
    return returns, length, speed


def make_display(console: Console, steps: int, total: int, interruption: Interruption) -> Display:
    """The display that suits `console`."""
    if console.quiet:
        return Display(steps, total)
    if console.is_terminal:
        return LiveDisplay(console, steps, total, interruption)
    return LineDisplay(console, steps, total)


def _duration(seconds: float) -> str:
    return "-:--:--" if math.isnan(seconds) else str(timedelta(seconds=round(seconds)))
