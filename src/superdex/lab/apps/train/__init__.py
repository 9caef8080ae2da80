"""`superdex train`: PPO on large batches, from the command line to a policy, its curve and its video."""
