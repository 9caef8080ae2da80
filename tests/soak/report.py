"""What a soak has to say at its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["Report"]

MOST_GROWTH = 0.02
"""Of memory, as a part of what it was after the warm-up."""
_SECONDS_TO_JUDGE_GROWTH = 120.0
"""Within less, memory has not settled."""


@dataclass
class Report:
    """Counts and measurements, and whether they are as they should be."""

    seed: int
    counts: Counter[str]
    round: int = 0
    seconds: float = 0.0
    memory_at_start: int = 0
    """After the warm-up [bytes]; 0 if there was none."""
    memory_at_end: int = 0
    measured_from: float = 0.0
    seconds_measured: float = 0.0
    leaks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """Of memory, as a part of what it was."""
        return self.memory_at_end / self.memory_at_start - 1 if self.memory_at_start else 0.0

    @property
    def grew(self) -> bool:
        """Whether memory grew more than it may, in a time long enough to tell."""
        return self.seconds_measured >= _SECONDS_TO_JUDGE_GROWTH and self.growth >= MOST_GROWTH

    @property
    def survived(self) -> bool:
        """Whether every fault was."""
        return all(self._survived(name) == count for name, count in self._injected().items())

    @property
    def good(self) -> bool:
        """Whether the soak has found nothing."""
        return self.survived and not self.leaks and not self.grew

    def _injected(self) -> dict[str, int]:
        mark = "injected: "
        return {key.removeprefix(mark): n for key, n in sorted(self.counts.items()) if key.startswith(mark)}

    def _survived(self, name: str) -> int:
        return self.counts[f"survived: {name}"]

    def __str__(self) -> str:
        plain = {key: count for key, count in sorted(self.counts.items()) if ": " not in key}
        lines = [f"{key:34} {count:>12,}" for key, count in plain.items()]
        lines += ["", f"{'fault':34} {'injected':>12} {'survived':>12}"]
        lines += [f"{name:34} {count:>12,} {self._survived(name):>12,}" for name, count in self._injected().items()]
        judged = "" if self.seconds_measured >= _SECONDS_TO_JUDGE_GROWTH else " (too short to judge)"
        lines += [
            "",
            f"memory at start {self.memory_at_start / 2**20:.1f} MiB, at end {self.memory_at_end / 2**20:.1f} MiB:"
            f" growth {100 * self.growth:+.2f} % in {self.seconds_measured:.0f} s{judged}",
            f"left behind: {', '.join(self.leaks) or 'nothing'}",
            *self.notes,
            f"seed {self.seed}, {self.seconds:.0f} s: {'good' if self.good else 'NOT GOOD'}",
        ]
        return "\n".join(lines)
