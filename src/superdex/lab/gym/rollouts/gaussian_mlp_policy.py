"""A Gaussian policy with a small neural network, in NumPy: what acts while rollouts are collected.

    policy = GaussianMlpPolicy(layers=((w0, b0), (w1, b1)), log_std=np.zeros(6, np.float32), ...)
    actions = policy(observation, step, slice(0, 1000))

A forward pass of 1000 rows takes tenths of a millisecond, without a learning
library. The same environments get the same actions to the bit, in whatever
slices they are asked for: noise is a function of seed, step and environment,
and matrices are multiplied in blocks whose size depends on the layer alone,
because a product's rounding depends on its shape. Blocks are so small that BLAS
starts no threads for them, which for wide layers would mostly wait for each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from superdex.lab.gym.rollouts.noise import standard_normal
from superdex.lab.gym.rollouts.normalizing import normalized

__all__ = ["ACTIVATIONS", "GaussianMlpPolicy"]

ACTIVATIONS = ("relu", "tanh")

_MULTIPLICATIONS = 2**18
"""Most multiplications of one matrix product, rows * inputs * outputs: OpenBLAS starts threads for more."""


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianMlpPolicy:
    """A `Policy`: the mean by a multilayer perceptron, a standard deviation per action, noise by place.

    Raises:
        ValueError: if the shapes do not fit together, or the activation is unknown.
    """

    layers: tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]
    """Weights (inputs, outputs) and biases (outputs,) of each layer; the last gives the mean action."""
    activation: str
    """Between the layers: "relu" or "tanh"."""
    log_std: NDArray[np.float32]
    """(action_size,): logarithm of each action's standard deviation."""
    low: np.ndarray
    """(*action_shape): lower bounds of the actions, for `bounded`."""
    high: np.ndarray
    """(*action_shape): upper bounds."""
    mean: NDArray[np.float64] | None = None
    """(*observation_shape): subtracted from observations; None if they are not normalised."""
    scale: NDArray[np.float64] | None = None
    """(*observation_shape): what the difference is multiplied by."""
    clip: float = 10.0
    """Largest size of a normalised observation."""
    seed: int = 0
    """Of the noise; not negative."""
    deterministic: bool = False
    """Whether the mean is the action."""

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {ACTIVATIONS}, got {self.activation!r}.")
        size = None
        for weights, biases in self.layers:
            if weights.shape[1:] != biases.shape or size not in (None, len(weights)):
                shapes = [(w.shape, b.shape) for w, b in self.layers]
                raise ValueError(f"Layers must be (inputs, outputs), (outputs,) and follow each other, got {shapes}.")
            size = len(biases)
        if size != self.low.size or self.log_std.shape != (size,):
            raise ValueError(
                f"The last layer has {size} outputs and log_std the shape {self.log_std.shape}; both must be of the"
                f" {self.low.size} entries of an action."
            )

    def __call__(self, observation: np.ndarray, step: int, environments: slice) -> NDArray[np.float32]:
        """Unclipped actions (n, *action_shape) for observations (n, *observation_shape); see `Policy`."""
        means = self.means(observation)
        if self.deterministic:
            return means
        noise = standard_normal(self.seed, step, environments, len(self.log_std))
        noise *= np.exp(self.log_std)
        return means + noise.reshape(means.shape)

    def means(self, observation: np.ndarray) -> NDArray[np.float32]:
        """The mean actions (n, *action_shape), unclipped."""
        count = len(observation)
        if self.mean is not None and self.scale is not None:
            observation = normalized(observation, self.mean, self.scale, self.clip)
        rows = _rows_of_product(max(weights.size for weights, _ in self.layers))
        hidden = np.zeros((-(-count // rows), rows, len(self.layers[0][0])), np.float32)
        hidden.reshape(-1, hidden.shape[-1])[:count] = observation.reshape(count, -1)
        for weights, biases in self.layers[:-1]:
            hidden = _product(hidden, weights)
            hidden += biases
            if self.activation == "relu":
                np.maximum(hidden, 0, out=hidden)
            else:
                np.tanh(hidden, out=hidden)
        weights, biases = self.layers[-1]
        means = _product(hidden, weights) + biases
        return means.reshape(-1, means.shape[-1])[:count].reshape(count, *self.low.shape)

    def bounded(self, actions: np.ndarray) -> np.ndarray:
        """Actions (n, *action_shape), clipped to the bounds, as the environments do it."""
        return np.clip(actions, self.low, self.high)

    def as_deterministic(self) -> Self:
        """The same policy without noise."""
        return replace(self, deterministic=True)

    def state(self) -> dict[str, np.ndarray]:
        """Everything, as arrays; `np.savez` takes them, and `from_state` makes the policy again."""
        state = {
            name: np.array(getattr(self, name))
            for name in ("activation", "log_std", "low", "high", "clip", "seed", "deterministic")
        }
        if self.mean is not None and self.scale is not None:
            state |= {"mean": self.mean, "scale": self.scale}
        for index, (weights, biases) in enumerate(self.layers):
            state |= {f"weights_{index}": weights, f"biases_{index}": biases}
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, np.ndarray]) -> Self:
        """The policy of a `state()`."""
        count = sum(name.startswith("weights_") for name in state)
        return cls(
            layers=tuple((state[f"weights_{index}"], state[f"biases_{index}"]) for index in range(count)),
            activation=str(state["activation"]),
            log_std=state["log_std"],
            low=state["low"],
            high=state["high"],
            mean=state.get("mean"),
            scale=state.get("scale"),
            clip=float(state["clip"]),
            seed=int(state["seed"]),
            deterministic=bool(state["deterministic"]),
        )


def _rows_of_product(most_weights: int) -> int:
    """How many rows a matrix product takes in a policy whose largest layer has so many weights.

    Fewer where that leaves more columns: BLAS is fastest with many of these.
    """
    return 16 if 16 * most_weights <= _MULTIPLICATIONS else 8


def _product(blocks: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """`blocks @ weights` for (n, rows, inputs) and (inputs, outputs), as many columns at a time as may be."""
    outputs = weights.shape[1]
    most = max(_MULTIPLICATIONS // (blocks.shape[1] * blocks.shape[2]), 1)
    if most >= outputs:
        return np.matmul(blocks, weights)
    width = 1 << (most.bit_length() - 1)  # a power of two suits BLAS's tiles
    product = np.empty((*blocks.shape[:-1], outputs), np.float32)
    for start in range(0, outputs, width):
        columns = slice(start, start + width)
        np.matmul(blocks, weights[:, columns], out=product[..., columns])
    return product
