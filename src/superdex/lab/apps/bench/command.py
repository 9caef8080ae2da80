"""The options of `superdex bench`, and the order of things."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal

from rich.console import Console

from superdex.lab.apps.atomic import replace_file
from superdex.lab.apps.bench import report as reports
from superdex.lab.apps.bench.fresh import MeasurementError
from superdex.lab.apps.bench.gymnasium_ratio import measure_gymnasium
from superdex.lab.apps.bench.measuring import Plan
from superdex.lab.apps.bench.plot import draw_figure
from superdex.lab.apps.bench.report import Report
from superdex.lab.apps.bench.scaling import measure_scaling
from superdex.lab.apps.bench.settings import QUICK_SIZES, Settings, Sizes
from superdex.lab.apps.bench.sharing import measure_sharing
from superdex.lab.apps.bench.suite import SuiteSettings, find_suite_tasks, measure_suite
from superdex.lab.apps.bench.suite_plot import draw_suite
from superdex.lab.apps.bench.suite_report import suite_table
from superdex.lab.apps.bench.sweep import measure_sweep
from superdex.lab.apps.checking import require
from superdex.lab.apps.counts import Count, Counts, Number
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.extras import require_extra
from superdex.lab.apps.machine import machine_facts, num_usable_cpus
from superdex.lab.apps.options import Seconds, require_writable, shown
from superdex.lab.apps.tables import make_console
from superdex.lab.apps.tasks import find_task

__all__ = ["Bench"]

Section = Literal["sweep", "gymnasium", "sharing", "scaling"]

Part = tuple[Callable[..., Any], Callable[..., Any]]
"""What measures a section and yields its results so far, again and again, and what makes a table of them."""

_SECTIONS: dict[str, Part] = {
    "sweep": (measure_sweep, reports.sweep_table),
    "gymnasium": (measure_gymnasium, reports.gymnasium_table),
    "sharing": (measure_sharing, reports.sharing_table),
    "scaling": (measure_scaling, reports.scaling_table),
}
_SUITE: dict[str, Part] = {"suite": (measure_suite, suite_table)}

_LAPS: tuple[Section, ...] = ("sweep", "gymnasium", "scaling")
_USERS: dict[str, tuple[Section, ...]] = {
    "num_workers": ("sweep", "gymnasium"),
    "num_envs_per_worker": ("sweep", "gymnasium"),
    "num_threads": ("sweep", "scaling"),
    "num_steps": _LAPS,
    "min_seconds": _LAPS,
    "rounds": _LAPS,
}
"""Which sections take an option that not all of them do."""

_SUITE_HELP = (
    "Instead of the sections: Gymnasium's MuJoCo v5 tasks, ours against Gymnasium's vectorizers, EnvPool and raw"
    " mujoco.batch. Takes --env, --num_envs and --num_threads; all of it takes some two hours."
)
_SECTIONS_HELP = (
    "What to measure. sweep: every split, against raw mujoco.batch. gymnasium: against SyncVectorEnv and"
    " AsyncVectorEnv. sharing: start and memory with scene sharing on and off. scaling: 1000 against 50000"
    " environments, and the start of 10000."
)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure throughput, start-up and memory on this machine.

    Without options: all sections for three tasks, in about five minutes. Lists are separated by
    spaces, as in --num_workers 1 2 4. Whatever is compared is timed in turns, and ratios are
    medians over the turns; still, leave the machine alone meanwhile.
    """

    suite: Annotated[Literal["gymnasium-v5"] | None, shown("gymnasium-v5", "none", _SUITE_HELP)] = None
    """What to measure instead of the sections."""
    env: Annotated[tuple[str, ...] | None, shown("NAME [NAME ...]", "CartPole HalfCheetah Ant; all of a suite")] = None
    """Tasks, by name (CartPole) or id (superdex_gym/CartPole-v0). The section "scaling" takes the first."""
    sections: Annotated[tuple[Section, ...] | None, shown("NAME [NAME ...]", "all", _SECTIONS_HELP)] = None
    """What to measure."""
    num_workers: Annotated[Counts, shown("N [N ...]", "1, half the CPUs, all CPUs")] = None
    """Numbers of worker processes."""
    num_envs_per_worker: Annotated[Counts, shown("N [N ...]", "1 8 64 500")] = None
    """Environments in each worker; every combination with --num_workers is measured."""
    num_envs: Annotated[Counts, shown("N [N ...]", "16 100 1000 4000")] = None
    """Of a suite: numbers of environments; every combination with --num_threads is measured."""
    num_threads: Annotated[Counts, shown("N [N ...]", "all CPUs; of a suite, 1 and all")] = None
    """Native threads of environments in process (SceneVectorEnv); of a suite, of every contestant."""
    num_steps: Annotated[Count, shown("N", "what --min_seconds needs")] = None
    """Control steps of a timed lap."""
    min_seconds: Seconds = 0.2
    """Least duration of a timed lap [s]."""
    rounds: Annotated[Count, shown("N", "5; of a suite, 11; with --quick, 2")] = None
    """Timed laps of each side."""
    seed: Number = 0
    """Of environments and actions."""
    quick: bool = False
    """Small sizes and a few short laps, to see that all works: the figures mean nothing."""
    json: Annotated[Path | None, shown("FILE", "none")] = None
    """Write machine facts, all laps and the summary to this file; what there is of them if a measurement fails."""
    plot: Annotated[Path | None, shown("FILE", "none")] = None
    """Draw throughput over the splits to this image (.png, .svg or .pdf); needs the extra "plot"."""

    def run(self) -> int:
        """Measure and report; returns the exit code."""
        settings = self._settings() if self.suite is None else self._suite_settings()
        self._check_outputs()
        report, begin = Report(), perf_counter()
        failure: str | None = "interrupted"
        try:
            self._measure(settings, report)
            failure = None
        except MeasurementError as error:
            failure = str(error)
            print(f"superdex: {failure}", file=sys.stderr)
        finally:
            self._write(report, settings, perf_counter() - begin, failure)
        return int(failure is not None)

    def _measure(self, settings: Settings | SuiteSettings, report: Report) -> None:
        """Fill the report, and print a table of each section that it then holds, if only in part."""
        parts = _SUITE if self.suite is not None else {name: _SECTIONS[name] for name in self._sections}
        console, status = make_console(), Console(stderr=True)
        for name, (measure, tabulate) in parts.items():
            try:
                with status.status(name) as line:
                    for result in measure(settings, line.update):
                        setattr(report, name, result)
            finally:
                if getattr(report, name) is not None:
                    console.print(tabulate(getattr(report, name)))

    def _write(self, report: Report, settings: Settings | SuiteSettings, seconds: float, failure: str | None) -> None:
        """Write the files that were asked for, if there is anything to tell."""
        if self.json is not None and report != Report():
            document = reports.to_json(report, machine_facts(), self._options(settings), seconds, failure)
            text = json.dumps(document, indent=1) + "\n"
            _replace("json", self.json, lambda path: path.write_text(text))
        if self.plot is not None and report.suite is not None:
            results = report.suite.results
            _replace("plot", self.plot, lambda path: draw_suite(results, path))
        if self.plot is not None and report.sweep is not None:
            splits = report.sweep
            _replace("plot", self.plot, lambda path: draw_figure(splits, path))

    @property
    def _sections(self) -> tuple[Section, ...]:
        return tuple(_SECTIONS) if self.sections is None else self.sections  # type: ignore[return-value]

    def _settings(self) -> Settings:
        require(self.num_envs is None, "num_envs", "is for --suite; sections take --num_envs_per_worker", self.num_envs)
        require(self.env != (), "env", "must be at least one task", "none")
        require(self.sections != (), "sections", "must be at least one section", "none")
        self._require_users()
        cpus = num_usable_cpus()
        workers = (2,) if self.quick else tuple(sorted({1, (cpus + 1) // 2, cpus}))
        return Settings(
            tasks=tuple(dict.fromkeys(map(find_task, self.env or ("CartPole", "HalfCheetah", "Ant")))),
            num_workers=self._counts("num_workers", workers),
            num_envs_per_worker=self._counts("num_envs_per_worker", (1, 4) if self.quick else (1, 8, 64, 500)),
            num_threads=self._counts("num_threads", (cpus,)),
            plan=self._plan(rounds=5),
            sizes=QUICK_SIZES if self.quick else Sizes(),
        )

    def _require_users(self) -> None:
        """Raise UserError if an option was given that none of the sections takes."""
        for option, users in _USERS.items():
            rule = f"is for the sections {' and '.join(users)}, which --sections leaves out"
            require(not self._given(option) or bool({*users} & {*self._sections}), option, rule, getattr(self, option))
        if {*self._sections} == {"scaling"}:
            names = self.env or ("CartPole",)
            require(len(names) == 1, "env", 'must be one task for the section "scaling" alone', " ".join(names))

    def _given(self, option: str) -> bool:
        return getattr(self, option) != getattr(type(self), option)

    def _suite_settings(self) -> SuiteSettings:
        for option in ("sections", "num_workers", "num_envs_per_worker"):
            value = getattr(self, option)
            require(value is None, option, "does not go with --suite, which takes --num_envs and --num_threads", value)
        require(self.env != (), "env", "must be at least one task", "none")
        return SuiteSettings(
            tasks=find_suite_tasks(self.env),
            num_envs=self._counts("num_envs", (4,) if self.quick else (16, 100, 1000, 4000)),
            num_threads=self._counts("num_threads", tuple(sorted({1, num_usable_cpus()}))),
            plan=self._plan(rounds=11),
        )

    def _counts(self, option: str, default: tuple[int, ...]) -> tuple[int, ...]:
        values = getattr(self, option) or default
        for value in values:
            require(value >= 1, option, "must be at least 1", value)
        return tuple(dict.fromkeys(values))

    def _plan(self, rounds: int) -> Plan:
        rounds = rounds if self.rounds is None else self.rounds
        require(rounds >= 1, "rounds", "must be at least 1", rounds)
        require(self.num_steps is None or self.num_steps >= 1, "num_steps", "must be at least 1", self.num_steps)
        require(0 < self.min_seconds < float("inf"), "min_seconds", "must be positive", self.min_seconds)
        steps_are_said = self.quick or self.num_steps is not None
        rule = "does not go with --num_steps or --quick, which say how many steps a lap has"
        require(not (self._given("min_seconds") and steps_are_said), "min_seconds", rule, self.min_seconds)
        require(self.seed >= 0, "seed", "must not be negative", self.seed)
        if self.quick:
            return Plan(seed=self.seed, rounds=self.rounds or 2, num_steps=self.num_steps or 3, warmup_steps=3)
        return Plan(seed=self.seed, rounds=rounds, num_steps=self.num_steps, min_seconds=self.min_seconds)

    def _check_outputs(self) -> None:
        """Raise now rather than after minutes of measuring."""
        if self.json is not None:
            require_writable("json", self.json)
        if self.plot is not None:
            require_writable("plot", self.plot, ".png", ".svg", ".pdf")
            if self.suite is None and "sweep" not in self._sections:
                raise UserError('--plot draws the section "sweep", which --sections leaves out.')
            require_extra("plot", "--plot", "matplotlib")

    def _options(self, settings: Settings | SuiteSettings) -> dict[str, Any]:
        options = asdict(settings)
        options["tasks"] = [task.task_id for task in settings.tasks]
        what = {"sections": list(self._sections)} if self.suite is None else {"suite": self.suite}
        return {**what, "quick": self.quick, **options}


def _replace(option: str, path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make the file that an option names, which is there in full or not at all.

    Raises:
        UserError: if it cannot be written.
    """
    try:
        replace_file(path, write)
    except OSError as error:
        raise UserError(f"--{option} {path} cannot be written: {error.strerror or error}.") from error
