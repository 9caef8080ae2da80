"""Vector environments in any order of calls equal their models: a fixed set of examples of each state machine.

`tests.soak.fuzzing` runs new examples for as long as one likes.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine

from tests.lab.gym.vector.machines import HybridMachine, SplitMachine
from tests.lab.gym.vector.scene_machine import SceneMachine


def profile(max_examples: int, stateful_step_count: int, **more: Any) -> settings:
    """Settings without a time limit for one example, which no machine can promise."""
    return settings(
        max_examples=max_examples,
        stateful_step_count=stateful_step_count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),  # type: ignore[arg-type]
        **more,
    )


MACHINES: dict[type[RuleBasedStateMachine], settings] = {
    SplitMachine: profile(200, 30, derandomize=True),
    SceneMachine: profile(200, 30, derandomize=True),
    # no shrinking: each example starts processes
    HybridMachine: profile(6, 12, derandomize=True, phases=[Phase.generate]),
}
"""The machines, and how much of each is run on every change."""


def _case(machine: type[RuleBasedStateMachine]) -> Any:
    case: Any = machine.TestCase
    case.settings = MACHINES[machine]
    return case


TestSplit = _case(SplitMachine)
TestScene = _case(SceneMachine)
TestHybrid = _case(HybridMachine)
