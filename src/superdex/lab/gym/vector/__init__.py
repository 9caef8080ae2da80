"""Vector environments; their public names are in `superdex.lab.gym.utils.vector`."""
