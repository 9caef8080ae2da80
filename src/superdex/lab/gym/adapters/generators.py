"""The states of the global random generators that Stable-Baselines3 draws from, as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

__all__ = ["generator_states", "restore_generators"]


def generator_states() -> dict[str, np.ndarray]:
    """NumPy's global generator (it shuffles minibatches) and torch's."""
    _, key, position, has_gauss, gauss = np.random.get_state()
    return {
        "generator/numpy_key": np.array(key),
        "generator/numpy_position": np.array([position, has_gauss], np.int64),
        "generator/numpy_gauss": np.array(gauss),
        "generator/torch": torch.get_rng_state().numpy().copy(),
    }


def restore_generators(state: Mapping[str, np.ndarray]) -> None:
    """Set both to what `generator_states` gave; ValueError, and neither is changed, if it is not that."""
    position, has_gauss = (int(value) for value in state["generator/numpy_position"])
    gauss = float(state["generator/numpy_gauss"])
    for_numpy = ("MT19937", state["generator/numpy_key"], position, has_gauss, gauss)
    for_torch = torch.from_numpy(np.array(state["generator/torch"]))
    try:
        np.random.RandomState().set_state(for_numpy)
        torch.Generator().set_state(for_torch)
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"The state of a random generator is damaged, or of another version: {error}") from error
    np.random.set_state(for_numpy)
    torch.set_rng_state(for_torch)
