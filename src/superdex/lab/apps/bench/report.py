"""What `superdex bench` found, as tables for people and as JSON for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from superdex.lab.apps.bench.gymnasium_ratio import GymnasiumResult
from superdex.lab.apps.bench.scaling import ScalingResult
from superdex.lab.apps.bench.sharing import SharingResult
from superdex.lab.apps.bench.suite import SuiteReport
from superdex.lab.apps.bench.sweep import SplitResult
from superdex.lab.apps.tables import make_table

__all__ = ["SCHEMA", "Report", "to_json"]

SCHEMA = 1
"""Of the JSON file; it changes when a program that reads the file must."""


@dataclass
class Report:
    """The results of the sections that were measured."""

    sweep: list[SplitResult] | None = None
    gymnasium: list[GymnasiumResult] | None = None
    sharing: list[SharingResult] | None = None
    scaling: ScalingResult | None = None
    suite: SuiteReport | None = None


def to_json(
    report: Report, machine: dict[str, Any], options: dict[str, Any], seconds: float, failure: str | None = None
) -> dict[str, Any]:
    """Plain data: facts, options, every lap as [environment steps, seconds], and what was made of them.

    `summary` repeats the ratios, which are what can be compared with another machine's. `failure` is there if
    something ended the measurements before all were made, and says what.
    """
    sections = {name: section for name, section in asdict(report).items() if section is not None}
    return {
        "schema": SCHEMA,
        "machine": machine,
        "options": options,
        "seconds": seconds,
        "summary": _summary(report),
        "sections": sections,
        **({} if failure is None else {"failure": failure}),
    }


def _summary(report: Report) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for split in report.sweep or ():
        summary.setdefault("ratio_to_raw", {}).setdefault(split.task, {})[_name(split)] = split.ratio_to_raw
    for each in report.gymnasium or ():
        pair = f"{each.ours} / {each.theirs}"
        summary.setdefault("ratio_to_gymnasium", {}).setdefault(each.task, {})[pair] = each.ratio
    if report.scaling is not None:
        summary["growth"] = report.scaling.growth.ratio
    for each in report.suite.results if report.suite is not None else ():
        where = f"{each.num_envs} on {each.num_threads} threads"
        summary.setdefault("times_as_fast", {}).setdefault(each.task, {})[where] = each.times_as_fast
    return summary


def _name(split: SplitResult) -> str:
    if split.num_workers:
        return f"{split.num_workers} x {split.num_envs_per_process}"
    return f"in process, {split.num_envs} on {split.num_threads} threads"


# Tables


def sweep_table(results: list[SplitResult]) -> Table:
    """A row per split."""
    table = make_table(
        "Sweep: splits of environments over workers, and in process",
        "task", "split", "environments", "threads", "start [s]", "memory [MB]", "B/env", "control FPS",
        "simulation FPS", "of raw MuJoCo",
        text=["split"],
        caption="Start: construction and first reset. Memory: PSS of parent and workers. B/env: bytes beyond those of"
        "\none environment per thread. Of raw MuJoCo: speed over that of mujoco.batch, as many threads, same states.",
    )  # fmt: skip
    previous = None
    for result in results:
        if previous not in (None, (result.task, result.num_workers)):
            table.add_section()
        previous = (result.task, result.num_workers)
        table.add_row(
            result.task,
            f"{result.num_workers} x {result.num_envs_per_process}" if result.num_workers else "in process",
            f"{result.num_envs:,}",
            str(result.num_threads),
            f"{result.init_seconds:.2f}",
            _megabytes(result.memory_bytes),
            _bytes(result.bytes_per_env),
            f"{result.control_fps:,.0f}",
            f"{result.simulation_fps:,.0f}",
            f"{result.ratio_to_raw:.2f}",
        )
    return table


def gymnasium_table(results: list[GymnasiumResult]) -> Table:
    """A row per comparison."""
    table = make_table(
        "Against Gymnasium's vectorizers, per environment step",
        "task", "ours", "theirs", "our FPS", "their FPS", "times as fast",
        text=["ours", "theirs"],
    )  # fmt: skip
    for each in results:
        speeds = f"{each.control_fps:,.0f}", f"{each.their_control_fps:,.0f}"
        table.add_row(each.task, each.ours, each.theirs, *speeds, f"{each.ratio:.1f}")
    return table


def sharing_table(results: list[SharingResult]) -> Table:
    """A row per task and setting."""
    table = make_table(
        "Scene sharing, in one process",
        "task", "use_shared_scenes", "environments", "start [s]", "memory [MB]", "B/env",
    )  # fmt: skip
    for each in results:
        table.add_row(
            each.task,
            str(each.use_shared_scenes),
            f"{each.num_envs:,}",
            f"{each.init_seconds:.2f}",
            _megabytes(each.memory_bytes),
            _bytes(each.bytes_per_env),
        )
    return table


def scaling_table(result: ScalingResult) -> Table:
    """Growth and the start of very many."""
    table = make_table(f"Large numbers of {result.task}", "what", "environments", "figure", text=["figure"])
    growth, many = result.growth, result.many
    for num_envs, microseconds in zip(growth.num_envs, growth.microseconds_per_env_step, strict=True):
        figure = f"{microseconds:.2f} us per environment step, {growth.num_threads} threads"
        table.add_row("step in process", f"{num_envs:,}", figure)
    table.add_row("growth of that time", "", f"x {growth.ratio:.2f}")
    figure = f"{many.init_seconds:.2f} s in {many.num_workers} workers, {_bytes(many.bytes_per_env)} B per environment"
    table.add_row("construct and first reset", f"{many.num_envs:,}", figure)
    return table


def _megabytes(value: int | None) -> str:
    return "n/a" if value is None else f"{value / 1e6:,.0f}"


def _bytes(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
