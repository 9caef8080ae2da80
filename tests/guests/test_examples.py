"""The examples for other people's trainers learn, and learn the right values."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.guests.running import EXAMPLES, CutAndOverEnv, CutEnv, load, printed_returns, run

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own

GAMMA = 0.9
STATES = torch.tensor([[0.0], [1.0]])
NAMES = ["cleanrl_ppo", "rsl_rl_ppo", "sb3_ppo", "skrl_ppo"]


def prepare(example: ModuleType, name: str, task: type) -> None:
    """Let the example train on `task`, with GAMMA."""
    example.CartPoleEnv = task  # type: ignore[attr-defined]
    if name == "rsl_rl_ppo":
        example.CONFIG["algorithm"]["gamma"] = GAMMA
    elif name == "skrl_ppo":
        example.ROLLOUT["discount_factor"] = GAMMA
    else:
        example.GAMMA = GAMMA  # type: ignore[attr-defined]


def values_of(trained: Any, name: str) -> list[float]:
    """What the trained critic thinks of STATES."""
    with torch.no_grad():
        if name == "cleanrl_ppo":
            values = trained(STATES)[1]
        elif name == "rsl_rl_ppo":
            values = trained.alg.critic({"policy": STATES})
        elif name == "sb3_ppo":
            values = trained.policy.predict_values(STATES)
        else:
            values = trained.value.act({"observations": STATES}, role="value")[0]
    return values.flatten().tolist()


@pytest.mark.parametrize("name", NAMES)
def test_cartpole_learns(name: str, tmp_path: Path) -> None:
    returns = printed_returns(run(EXAMPLES / f"{name}.py", "--iterations", "20", folder=tmp_path))
    assert returns[0] < 40
    assert returns[-1] > 100


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_is_not_the_end(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = load(name)
    prepare(example, name, CutEnv)
    reset, running = values_of(example.main(num_envs=16, iterations=30), name)
    assert reset == pytest.approx(9, abs=0.3)
    assert running == pytest.approx(10, abs=0.3)


@pytest.mark.parametrize("name", NAMES)
def test_an_end_within_the_limit_is_the_end(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = load(name)
    prepare(example, name, CutAndOverEnv)
    for value in values_of(example.main(num_envs=16, iterations=10), name):
        assert value == pytest.approx(1.65, abs=0.4)
