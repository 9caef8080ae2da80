"""RLlib's PPO. Needs, in a virtual environment of its own: pip install "ray[rllib]" torch superdex-gym."""

import tyro
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

from superdex.lab.gym.adapters.rllib import rllib_env
from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv

STEPS, GAMMA = 128, 0.99


def make_envs(num_envs):
    return SceneVectorEnv(CartPoleEnv, num_envs=num_envs)  # NEXT_STEP is the default; RLlib learns from nothing else


def main(num_envs: int = 64, iterations: int = 30, num_env_runners: int = 0):
    """Train on `num_envs` environments in each runner: a process of its own, or this one if there is none."""
    register_env("cartpole", rllib_env(make_envs))
    batch = STEPS * num_envs * max(num_env_runners, 1)
    config = (
        PPOConfig()
        .environment("cartpole")
        .env_runners(num_env_runners=num_env_runners, num_envs_per_env_runner=num_envs)
        .env_runners(gym_env_vectorize_mode="vector_entry_point")
        .training(train_batch_size=batch, minibatch_size=512, num_epochs=4, lr=3e-3, gamma=GAMMA, lambda_=0.95)
        .training(use_kl_loss=False, vf_clip_param=float("inf"), vf_loss_coeff=0.01)
        .rl_module(model_config={"fcnet_hiddens": [64], "fcnet_activation": "relu", "vf_share_layers": False})
    )
    algorithm = config.build_algo()
    for iteration in range(1, iterations + 1):
        result = algorithm.train()["env_runners"]
        print(f"{iteration * batch} steps: mean return {result['episode_return_mean']:.1f}")
    return algorithm


if __name__ == "__main__":
    tyro.cli(main)
