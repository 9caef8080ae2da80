"""The options of `superdex bench`, and the order of things."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from superdex.lab.apps.bench import report as reports
from superdex.lab.apps.bench.fresh import MeasurementError
from superdex.lab.apps.bench.gymnasium_ratio import measure_gymnasium
from superdex.lab.apps.bench.machine import machine_facts, num_usable_cpus
from superdex.lab.apps.bench.measuring import Plan
from superdex.lab.apps.bench.plot import draw_figure, require_matplotlib
from superdex.lab.apps.bench.report import Report
from superdex.lab.apps.bench.scaling import measure_scaling
from superdex.lab.apps.bench.settings import QUICK_SIZES, Settings, Sizes
from superdex.lab.apps.bench.sharing import measure_sharing
from superdex.lab.apps.bench.sweep import measure_sweep
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tables import make_console
from superdex.lab.apps.tasks import find_task

__all__ = ["Bench"]

Section = Literal["sweep", "gymnasium", "sharing", "scaling"]
Counts = tuple[int, ...] | None

_SECTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sweep": (measure_sweep, reports.sweep_table),
    "gymnasium": (measure_gymnasium, reports.gymnasium_table),
    "sharing": (measure_sharing, reports.sharing_table),
    "scaling": (measure_scaling, reports.scaling_table),
}


def _shown(metavar: str, default: str) -> Any:
    """How the help shows an option whose default depends on the machine or on other options."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure throughput, start-up and memory on this machine.

    Without options: all sections for three tasks, in about five minutes. Lists are separated by
    spaces, as in --num_workers 1 2 4. Whatever is compared is timed in turns, and ratios are
    medians over the turns; still, leave the machine alone meanwhile.
    """

    env: tuple[str, ...] = ("CartPole", "HalfCheetah", "Ant")
    """Tasks, by name (CartPole) or id (superdex_gym/CartPole-v0). The section "scaling" takes the first."""
    sections: tuple[Section, ...] = ("sweep", "gymnasium", "sharing", "scaling")
    """What to measure. sweep: every split, against raw mujoco.batch. gymnasium: against SyncVectorEnv and
    AsyncVectorEnv. sharing: start and memory with scene sharing on and off. scaling: 1,000 against 50,000
    environments, and the start of 10,000."""
    num_workers: Annotated[Counts, _shown("N [N ...]", "1, half the CPUs, all CPUs")] = None
    """Numbers of worker processes."""
    num_envs_per_worker: Annotated[Counts, _shown("N [N ...]", "1 8 64 500")] = None
    """Environments in each worker; every combination with --num_workers is measured."""
    threads: Annotated[Counts, _shown("N [N ...]", "all CPUs")] = None
    """Native threads of environments in process (SceneVectorEnv)."""
    num_steps: Annotated[int | None, _shown("N", "what --min_seconds needs")] = None
    """Control steps of a timed lap."""
    min_seconds: float = 0.2
    """Least duration of a timed lap [s]."""
    rounds: int = 5
    """Timed laps of each side."""
    seed: int = 0
    """Of environments and actions."""
    quick: bool = False
    """Small sizes and short laps, to see that all works: the figures mean nothing."""
    json: Annotated[Path | None, _shown("FILE", "none")] = None
    """Write machine facts, all laps and the summary to this file."""
    plot: Annotated[Path | None, _shown("FILE", "none")] = None
    """Draw throughput over the splits to this image (.png, .svg or .pdf); needs the extra "plot"."""

    def run(self) -> int:
        """Measure and report; returns the exit code."""
        settings = self._settings()
        self._check_outputs()
        console, status = make_console(), Console(stderr=True)
        report, begin = Report(), perf_counter()
        try:
            for name in dict.fromkeys(self.sections):
                measure, tabulate = _SECTIONS[name]
                with status.status(name) as line:
                    result = measure(settings, lambda text, line=line: line.update(text))
                setattr(report, name, result)
                console.print(tabulate(result))
        except MeasurementError as error:
            print(f"superdex: {error}", file=sys.stderr)
            return 1
        if self.json is not None:
            document = reports.to_json(report, machine_facts(), self._options(settings), perf_counter() - begin)
            self.json.write_text(json.dumps(document, indent=1) + "\n")
        if self.plot is not None:
            draw_figure(report.sweep or [], self.plot)
        return 0

    def _settings(self) -> Settings:
        _require(bool(self.env), "env", "must be at least one task", "none")
        _require(bool(self.sections), "sections", "must be at least one section", "none")
        cpus = num_usable_cpus()
        workers = (2,) if self.quick else tuple(sorted({1, (cpus + 1) // 2, cpus}))
        settings = Settings(
            tasks=tuple(dict.fromkeys(map(find_task, self.env))),
            num_workers=self.num_workers or workers,
            num_envs_per_worker=self.num_envs_per_worker or ((1, 4) if self.quick else (1, 8, 64, 500)),
            threads=self.threads or (cpus,),
            plan=self._plan(),
            sizes=QUICK_SIZES if self.quick else Sizes(),
        )
        for option in ("num_workers", "num_envs_per_worker", "threads"):
            for value in getattr(settings, option):
                _require(value >= 1, option, "must be at least 1", value)
        return settings

    def _plan(self) -> Plan:
        _require(self.rounds >= 1, "rounds", "must be at least 1", self.rounds)
        _require(self.num_steps is None or self.num_steps >= 1, "num_steps", "must be at least 1", self.num_steps)
        _require(0 < self.min_seconds < float("inf"), "min_seconds", "must be positive", self.min_seconds)
        _require(self.seed >= 0, "seed", "must not be negative", self.seed)
        if self.quick:
            return Plan(seed=self.seed, rounds=min(self.rounds, 2), num_steps=self.num_steps or 3, warmup_steps=3)
        return Plan(seed=self.seed, rounds=self.rounds, num_steps=self.num_steps, min_seconds=self.min_seconds)

    def _check_outputs(self) -> None:
        """Raise now rather than after minutes of measuring."""
        for option, path in (("json", self.json), ("plot", self.plot)):
            if path is not None and not path.absolute().parent.is_dir():
                raise UserError(f"--{option} {path}: there is no directory {path.parent}.")
        if self.plot is not None:
            if self.plot.suffix not in (".png", ".svg", ".pdf"):
                raise UserError(f"--plot {self.plot}: the name must end in .png, .svg or .pdf.")
            if "sweep" not in self.sections:
                raise UserError('--plot draws the section "sweep", which --sections leaves out.')
            require_matplotlib()

    def _options(self, settings: Settings) -> dict[str, Any]:
        options = asdict(settings)
        options["tasks"] = [task.task_id for task in settings.tasks]
        return {"sections": list(self.sections), "quick": self.quick, **options}


def _require(condition: bool, option: str, rule: str, value: object) -> None:
    if not condition:
        raise UserError(f"--{option} {rule}, got {value}.")
