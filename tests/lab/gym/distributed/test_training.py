"""PPO over a cluster learns what it learns on one machine, and goes on when an actor dies."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from superdex.lab.gym.adapters.ppo import BatchPPO
from superdex.lab.gym.adapters.sb3 import Sb3VecEnv
from superdex.lab.gym.distributed import RayVectorEnv
from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv
from superdex.lab.gym.vector.base import BatchedVectorEnv
from tests.lab.gym.distributed.acting import kill

pytestmark = pytest.mark.usefixtures("cluster")

POLE = partial(CartPoleEnv, steps_per_episode=30)


def trainer(envs: BatchedVectorEnv) -> BatchPPO:
    adapter = Sb3VecEnv(envs, normalize_observations=True)
    policy = {"net_arch": [16]}
    return BatchPPO(env=adapter, n_steps=16, batch_size=64, n_epochs=2, seed=0, policy_kwargs=policy)


def parameters(ppo: BatchPPO) -> list[np.ndarray]:
    return [value.detach().numpy().copy() for value in ppo.policy.parameters()]


def test_training_is_that_of_one_machine_and_survives_an_actor() -> None:
    with SceneVectorEnv([POLE] * 8, autoreset_mode="SameStep") as envs:
        ppo = trainer(envs)
        expected = [parameters(ppo) for _ in ppo.iterations(3 * 16 * 8)]
    with RayVectorEnv([POLE] * 8, 4, autoreset_mode="SameStep", on_worker_failure="restart") as envs:
        ppo = trainer(envs)
        learned = []
        for iteration in ppo.iterations(6 * 16 * 8):
            learned.append(parameters(ppo))
            if iteration == 3:
                kill(envs, 1)
            if iteration == 4:
                assert (ppo.statistics.state()["lengths"][4:] <= 16).all(), "the lost episodes do not go on"
        assert envs.worker_restarts == (0, 1)
    for ours, theirs in zip(learned[:3], expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
    assert len(learned) == 6
    assert all((one != other).any() for one, other in zip(learned[-1], learned[-2], strict=True))
