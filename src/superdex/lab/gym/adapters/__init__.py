"""Adapters: our vector environments as other libraries take them. Import the module of the library you have.

| module | for |
|---|---|
| `superdex.lab.gym.adapters.sb3` | Stable-Baselines3: `Sb3VecEnv` |
| `superdex.lab.gym.adapters.ppo` | `BatchPPO`, its PPO with rollouts collected in large batches |
| `superdex.lab.gym.adapters.rsl_rl` | rsl-rl: `RslRlVecEnv` |
| `superdex.lab.gym.adapters.rllib` | RLlib: `rllib_env` |
"""
