"""Balance 1000 poles on 8 worker processes.

Needs tqdm: pip install "superdex-gym[examples]".
"""

import time

import numpy as np
from tqdm import tqdm

from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv

num_training_steps = 1000

# A linear state feedback. Observations are sorted by name: angular velocity and velocity
# [rad/s, m/s], position and angle [m, rad]. Actions are in units of 100 N.
gains = np.array([[10.0], [2.0], [1.0], [40.0]], dtype=np.float32)


def main():
    # Environment factory functions, one per environment.
    env_creators = [lambda: CartPoleEnv({"render_mode": None}) for _ in range(1000)]

    # 8 async workers, each stepping 125 environments sequentially.
    with HybridVectorEnv(env_creators, num_envs_per_worker=125) as env:
        print(f"Created {env.num_envs} environments")
        print(f"Using {env.num_workers} async workers")
        print(f"Each worker manages {env.num_envs_per_worker} environments")

        # Control steps of the running episodes; -1 makes up for the call that resets (NEXT_STEP autoreset).
        episode_steps = np.zeros(env.num_envs, dtype=int)
        finished = []

        observations, _ = env.reset(seed=list(range(env.num_envs)))
        start = time.perf_counter()
        for step in tqdm(range(num_training_steps), unit="step"):
            actions = observations @ gains
            observations, rewards, terminated, truncated, info = env.step(actions)

            episode_steps += 1
            ended = terminated | truncated
            finished.extend(episode_steps[ended])
            episode_steps[ended] = -1
        seconds = time.perf_counter() - start

    print(f"{num_training_steps * len(env_creators) / seconds:,.0f} control steps per second")
    if finished:
        print(f"Mean length of {len(finished)} finished episodes: {np.mean(finished):.1f} steps")
    else:
        print("No episode finished")


# Required: the wrapper spawns its workers, so each child re-imports this module.
if __name__ == "__main__":
    main()
