"""Collect rollouts of 1000 CartPoles over all nodes of a Ray cluster, with a policy that travels to them.

pip install "superdex-gym[ray]"
python cluster_rollouts.py                      # a Ray of this machine alone
RAY_ADDRESS=auto python cluster_rollouts.py     # the cluster that this machine is a node of
"""

import time
from collections import Counter
from functools import partial

import numpy as np
import tyro

from superdex.lab.gym.distributed import RayVectorEnv
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.rollouts import EpisodeStatistics


class LinearPolicy:
    """A linear state feedback, which knows nothing of steps and environments."""

    def __init__(self, gains: list[float]) -> None:
        self.gains = np.array(gains, np.float32)[:, None]

    def __call__(self, observation: np.ndarray, step: int, environments: slice) -> np.ndarray:
        return observation @ self.gains


def main(num_workers: int = 2, num_envs_per_worker: int = 500, num_steps: int = 100, num_rollouts: int = 5) -> None:
    """Collect rollouts and show how the episodes went."""
    env_fns = [partial(CartPoleEnv, steps_per_episode=200)] * (num_workers * num_envs_per_worker)
    with RayVectorEnv(env_fns, num_envs_per_worker, autoreset_mode="SameStep", on_worker_failure="restart") as envs:
        for node, count in Counter(envs.worker_nodes).items():
            print(f"Node {node[:8]}: {count} workers")
        envs.reset(seed=0)
        policy = LinearPolicy([10.0, 2.0, 1.0, 40.0])  # of pole speed, cart speed, cart position, pole angle
        statistics = EpisodeStatistics(envs.num_envs)
        begin = time.perf_counter()
        for i in range(num_rollouts):
            rollout = envs.collect(policy, num_steps, first_step=i * num_steps)
            statistics.update(rollout)
        speed = num_rollouts * num_steps * envs.num_envs / (time.perf_counter() - begin)
        print(f"{speed:,.0f} control steps per second")
        print(f"{statistics.num_episodes} episodes, {statistics.mean_length:.1f} steps on average")


if __name__ == "__main__":
    tyro.cli(main)
