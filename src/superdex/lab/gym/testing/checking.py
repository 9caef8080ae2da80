"""Runs the checks in an order in which a fault is laid at one door.

A mistake in a task tends to show everywhere: one that keeps state in an
attribute is not deterministic, cannot be captured, and differs in a batch. Each
check names the ones that find the root of what would make it fail, too; if one
of them failed, the check reports "skipped" where it would have failed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mujoco

from superdex.lab.gym.envs import MochiEnv, TaskCfg
from superdex.lab.gym.testing import batching, contract, recovery, rows, scene_names, undeclared
from superdex.lab.gym.testing.faults import Fault
from superdex.lab.gym.testing.outcomes import Outcome, Verdict, failed, skipped
from superdex.lab.gym.testing.subject import Subject

__all__ = ["CHECKS", "assert_task_ok", "check_task"]


@dataclass(frozen=True)
class _Check:
    run: Callable[[Subject], Outcome]
    causes: tuple[str, ...] = ()
    """Checks that find the root of what would make this one fail, too."""
    steps: bool = True
    """Whether it needs hooks that run."""


_SOURCES = ("undeclared_state", "determinism", "rows")
_FIRST = ("derived_fields", "runs", "spaces")

# by name, in the order in which they are reported
_CHECKS: dict[str, _Check] = {
    "runs": _Check(contract.check_runs, ("undeclared_state", "derived_fields", "spaces"), steps=False),
    "derived_fields": _Check(contract.check_derived_fields, ("undeclared_state",), steps=False),
    "spaces": _Check(contract.check_spaces, ("undeclared_state",), steps=False),
    "gymnasium": _Check(contract.check_gymnasium, ("undeclared_state", "determinism", "spaces")),
    "determinism": _Check(batching.check_determinism, ("undeclared_state",)),
    "undeclared_state": _Check(undeclared.check_undeclared_state, steps=False),
    "rows": _Check(rows.check_rows, ("undeclared_state", "determinism")),
    "batching": _Check(batching.check_batching, _SOURCES),
    "workers": _Check(batching.check_workers, (*_SOURCES, "batching", "pickling")),
    "scene_name": _Check(scene_names.check_scene_name, steps=False),
    "capture": _Check(recovery.check_capture, (*_SOURCES, "batching", "pickling")),
    "divergence": _Check(recovery.check_divergence, (*_SOURCES, "spaces", "batching")),
    "pickling": _Check(contract.check_pickling, steps=False),
}

CHECKS: tuple[str, ...] = tuple(_CHECKS)
"""The names of all checks, in the order in which they are reported."""


def check_task(
    env_class: type[MochiEnv],
    cfg: TaskCfg | Mapping[str, Any] | None = None,
    *,
    only: Collection[str] | None = None,
    workers: bool = False,
    try_values: Mapping[str, Sequence[Any]] | None = None,
) -> list[Verdict]:
    """Check a task; what it does wrong is in the verdicts, and nothing that it raises gets out.

    Args:
        env_class: the task.
        cfg: the configuration to check it in, as the class takes it.
        only: names of checks, from `CHECKS`; by default all.
        workers: whether to start worker processes too, which takes a few seconds and, as always,
            a script with a `__main__` guard.
        try_values: for configuration fields, other values with which to look for a change of the
            model, where they cannot be guessed: `{"terrain": ["flat", "rough"]}`.

    Returns:
        A verdict for each check, in the order of `CHECKS`.

    Raises:
        TypeError, ValueError: if an argument is not valid, or the configuration refuses it.
    """
    if not (isinstance(env_class, type) and issubclass(env_class, MochiEnv)):
        raise TypeError(f"check_task takes a class that derives from MochiEnv, got {env_class!r}.")
    unknown = sorted(set(only or ()) - set(CHECKS))
    if unknown:
        raise ValueError(f"There is no check {unknown[0]!r}; there are: {', '.join(CHECKS)}.")
    chosen = [name for name in CHECKS if (only is None or name in only) and (workers or name != "workers")]
    run = _Run(Subject(env_class, env_class.Cfg.make(cfg), try_values), chosen)
    with _quiet():
        return [run.verdict(name) for name in chosen]


def assert_task_ok(
    env_class: type[MochiEnv],
    cfg: TaskCfg | Mapping[str, Any] | None = None,
    *,
    only: Collection[str] | None = None,
    workers: bool = False,
    try_values: Mapping[str, Sequence[Any]] | None = None,
) -> list[Verdict]:
    """Raise AssertionError, with verdict and remedy of each check that failed; else return all verdicts.

    Arguments are those of `check_task`.
    """
    verdicts = check_task(env_class, cfg, only=only, workers=workers, try_values=try_values)
    bad = [verdict for verdict in verdicts if verdict.status == "failed"]
    if bad:
        raise AssertionError(
            f"{env_class.__name__} fails {len(bad)} of {len(verdicts)} checks:\n" + "\n".join(map(str, bad))
        )
    return verdicts


class _Run:
    """The verdicts of one run, each found once."""

    def __init__(self, subject: Subject, chosen: Collection[str]) -> None:
        self._subject = subject
        self._chosen = chosen
        self._verdicts: dict[str, Verdict] = {}

    def verdict(self, name: str) -> Verdict:
        if name not in self._verdicts:
            outcome = self._outcome(_CHECKS[name])
            self._verdicts[name] = Verdict(outcome.status, outcome.message, outcome.remedy, name)
        return self._verdicts[name]

    def _outcome(self, check: _Check) -> Outcome:
        bad = [name for name in check.causes if name in self._chosen and self.verdict(name).status == "failed"]
        if check.steps and self._subject.fault is not None:
            first = [name for name in _FIRST if name in self._chosen]
            blamed = bad + [name for name in first if self.verdict(name).status == "failed"]
            if blamed:
                return skipped(f"the task does not run; see {blamed[0]}")
        try:
            outcome = check.run(self._subject)
        except Exception as error:
            outcome = failed(
                str(Fault.of(error, self._subject.env_class)),
                "Mend the line that raises; it must work for any number of rows, and in any order of calls.",
            )
        finally:
            self._subject.close()
        if outcome.status in ("failed", "warning") and bad:
            return skipped(f"fails, too, which may follow from {bad[0]}: mend that first")
        return outcome


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of NumPy, and of MuJoCo, which would write MUJOCO_LOG.TXT to the working directory."""
    previous = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        mujoco.set_mju_user_warning(previous)
