"""Step CartPoles in worker processes with random actions, and say why episodes end."""

import argparse

from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--num-envs-per-worker", type=int, default=8)
    parser.add_argument("--num-steps", type=int, default=50)
    args = parser.parse_args()

    # One factory per environment. The dict holds fields of CartPoleCfg; leave it out for the defaults.
    env_creators = [lambda: CartPoleEnv({"steps_per_episode": 30})] * (args.num_workers * args.num_envs_per_worker)

    with HybridVectorEnv(env_creators, num_envs_per_worker=args.num_envs_per_worker) as env:
        env.action_space.seed(0)
        observations, _ = env.reset(seed=list(range(env.num_envs)))
        print(f"Observations {observations.shape}, actions {env.action_space.shape}")

        for step in range(args.num_steps):
            actions = env.action_space.sample()  # your policy
            observations, rewards, terminated, truncated, info = env.step(actions)

            for i in range(env.num_envs):
                if terminated[i] or truncated[i]:
                    key = "terminated_reason" if terminated[i] else "truncated_reason"
                    print(f"Step {step}, environment {i}: {info[key][i]}")


# Required: the workers are spawned, so each of them imports this module.
if __name__ == "__main__":
    main()
