"""`rllib_env` refuses what RLlib would learn wrongly from; it needs no RLlib for that."""

from __future__ import annotations

from typing import Any

import cloudpickle
import pytest
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.adapters.rllib import rllib_env
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv


class Maker:
    """Makes environments, and remembers them."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.made: list[SceneVectorEnv] = []

    def __call__(self, num_envs: int) -> SceneVectorEnv:
        self.made.append(SceneVectorEnv(CartPoleEnv, num_envs=num_envs, **self.options))
        return self.made[-1]


def test_gives_as_many_environments_as_rllib_asks_for() -> None:
    create = cloudpickle.loads(cloudpickle.dumps(rllib_env(Maker())))
    with create({"num_envs": 5, "other": 1}) as envs:
        assert envs.num_envs == 5


def test_takes_environments_in_workers() -> None:
    create = rllib_env(lambda num_envs: HybridVectorEnv([CartPoleEnv] * num_envs, num_envs_per_worker=2))
    with create({"num_envs": 2}) as envs:
        assert envs.autoreset_mode is AutoresetMode.NEXT_STEP


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_other_autoreset_modes_are_refused(mode: AutoresetMode) -> None:
    maker = Maker(autoreset_mode=mode)
    with pytest.raises(ValueError, match=f"right in NEXT_STEP mode only, got {mode}"):
        rllib_env(maker)({"num_envs": 2})
    assert maker.made[0].closed


def test_reused_arrays_are_refused() -> None:
    maker = Maker(copy=False)
    with pytest.raises(ValueError, match="copy=False"):
        rllib_env(maker)({"num_envs": 2})
    assert maker.made[0].closed


def test_single_environments_are_refused() -> None:
    with pytest.raises(ValueError, match='gym_env_vectorize_mode="vector_entry_point"'):
        rllib_env(Maker())({})
