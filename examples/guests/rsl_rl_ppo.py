"""rsl-rl's PPO. Needs: pip install "superdex-gym[guests]"."""

import torch
import tyro
from rsl_rl.runners import OnPolicyRunner

from superdex.lab.gym.adapters.rsl_rl import RslRlVecEnv
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv

MLP = {"class_name": "MLPModel", "hidden_dims": [64], "activation": "relu"}
CONFIG = {
    "num_steps_per_env": 128,
    "save_interval": 50,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**MLP, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
    "critic": MLP,
    "algorithm": {
        "class_name": "PPO",
        "num_learning_epochs": 4,
        "num_mini_batches": 16,
        "schedule": "fixed",
        "learning_rate": 3e-3,
        "gamma": 0.99,
        "entropy_coef": 0.0,
        "max_grad_norm": 100.0,
        "use_clipped_value_loss": False,
    },
}


def main(num_envs: int = 64, iterations: int = 30, log_dir: str = "runs/rsl_rl"):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # for networks this small, more threads only wait for each other
    with SceneVectorEnv(CartPoleEnv, num_envs=num_envs, autoreset_mode="SameStep") as envs:
        runner = OnPolicyRunner(RslRlVecEnv(envs, seed=0), CONFIG, log_dir)
        runner.learn(iterations)  # init_at_random_ep_len=True would spread the time limits of first episodes
    return runner


if __name__ == "__main__":
    tyro.cli(main)
