"""What `RslRlVecEnv` refuses without rsl-rl; `tests/guests` has the rest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from superdex.lab.gym.adapters.rsl_rl import RslRlVecEnv
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv


@pytest.fixture
def make() -> Iterator[Callable[[str], SceneVectorEnv]]:
    made: list[SceneVectorEnv] = []

    def make(mode: str) -> SceneVectorEnv:
        made.append(SceneVectorEnv(CartPoleEnv, num_envs=2, autoreset_mode=mode))
        return made[-1]

    yield make
    for envs in made:
        envs.close()


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_other_autoreset_modes_are_refused(make: Callable[[str], SceneVectorEnv], mode: str) -> None:
    with pytest.raises(ValueError, match=r"RslRlVecEnv needs a vector environment in SAME_STEP mode"):
        RslRlVecEnv(make(mode))


def test_a_missing_library_is_named(make: Callable[[str], SceneVectorEnv], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensordict", None)
    with pytest.raises(ImportError, match=r'needs rsl-rl: pip install "superdex-gym\[guests\]"'):
        RslRlVecEnv(make("SameStep"))
