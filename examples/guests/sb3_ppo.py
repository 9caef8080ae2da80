"""Stable-Baselines3's own PPO in a script of one's own. Needs: pip install "superdex-gym[train]"."""

import torch
import tyro
from stable_baselines3 import PPO

from superdex.lab.gym.adapters.sb3 import Sb3VecEnv
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv

STEPS, GAMMA = 128, 0.99


def main(num_envs: int = 64, iterations: int = 30):
    torch.set_num_threads(1)  # for networks this small, more threads only wait for each other
    with SceneVectorEnv(CartPoleEnv, num_envs=num_envs, autoreset_mode="SameStep") as envs:
        model = PPO(
            "MlpPolicy",
            Sb3VecEnv(envs),
            n_steps=STEPS,
            batch_size=512,
            n_epochs=4,
            learning_rate=3e-3,
            gamma=GAMMA,
            max_grad_norm=100,
            policy_kwargs={"net_arch": [64], "activation_fn": torch.nn.ReLU},
            seed=0,
            verbose=1,
        )
        return model.learn(iterations * STEPS * num_envs)


if __name__ == "__main__":
    tyro.cli(main)
