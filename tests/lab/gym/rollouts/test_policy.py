"""The NumPy policy: right, the same to the bit in any slice, and noise that is noise."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superdex.lab.gym.rollouts import GaussianMlpPolicy
from superdex.lab.gym.rollouts.noise import standard_normal

NUM_ENVS = 200


def make(activation: str = "relu", hidden: tuple[int, ...] = (64, 64), actions: int = 3) -> GaussianMlpPolicy:
    rng = np.random.default_rng(0)
    sizes = [5, *hidden, actions]
    layers = tuple(
        (rng.normal(size=(i, o)).astype(np.float32), rng.normal(size=o).astype(np.float32)) for i, o in pairwise(sizes)
    )
    return GaussianMlpPolicy(
        layers=layers,
        activation=activation,
        log_std=rng.normal(size=actions).astype(np.float32),
        low=-np.ones(actions, np.float32),
        high=np.ones(actions, np.float32),
        mean=rng.normal(size=5),
        scale=rng.uniform(0.5, 2, size=5),
        clip=2.0,
        seed=9,
    )


OBSERVATIONS = np.random.default_rng(1).normal(size=(NUM_ENVS, 5)).astype(np.float32)


@pytest.mark.parametrize("hidden", [(64, 64), (600, 300)])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_means_are_those_of_the_network(activation: str, hidden: tuple[int, ...]) -> None:
    policy = make(activation, hidden)
    hidden = np.clip((OBSERVATIONS - policy.mean) * policy.scale, -2, 2)
    for weights, biases in policy.layers[:-1]:
        hidden = hidden @ weights.astype(np.float64) + biases
        hidden = np.maximum(hidden, 0) if activation == "relu" else np.tanh(hidden)
    weights, biases = policy.layers[-1]
    np.testing.assert_allclose(policy.means(OBSERVATIONS), hidden @ weights + biases, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("hidden", [(), (64, 64), (96,), (256, 256), (600, 300)])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_any_slice_of_environments_gets_its_rows_to_the_bit(activation: str, hidden: tuple[int, ...]) -> None:
    policy = make(activation, hidden, actions=9)
    whole = policy(OBSERVATIONS, 5, slice(0, NUM_ENVS))
    rng = np.random.default_rng(2)
    for _ in range(40):
        start, stop = np.sort(rng.choice(NUM_ENVS + 1, 2, replace=False)).tolist()
        assert np.array_equal(policy(OBSERVATIONS[start:stop], 5, slice(start, stop)), whole[start:stop])


@pytest.mark.parametrize("hidden", [(64, 64), (256, 256), (600, 300), (1500, 40)])
def test_no_product_is_large_enough_for_blas_to_start_threads(
    monkeypatch: pytest.MonkeyPatch, hidden: tuple[int, ...]
) -> None:
    sizes, multiply = [], np.matmul

    def watch(blocks: np.ndarray, weights: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        sizes.append((blocks.shape[-2] * weights.size, weights.shape))
        return multiply(blocks, weights, out=out)

    monkeypatch.setattr(np, "matmul", watch)
    policy = make(hidden=hidden)
    policy.means(OBSERVATIONS)
    assert max(size for size, _ in sizes) <= 2**18
    done = sum(inputs * outputs for _, (inputs, outputs) in sizes)
    assert done == sum(weights.size for weights, _ in policy.layers)
    assert len(sizes) <= 2 * sum(8 * weights.size / 2**18 + 1 for weights, _ in policy.layers)  # and none is tiny


def test_actions_are_means_and_noise_of_the_given_deviation() -> None:
    policy = make()
    noise = standard_normal(9, 3, slice(10, 10 + NUM_ENVS), 3)
    expected = policy.means(OBSERVATIONS) + noise * np.exp(policy.log_std)
    assert np.array_equal(policy(OBSERVATIONS, 3, slice(10, 10 + NUM_ENVS)), expected)


def test_without_noise_the_mean_is_the_action() -> None:
    policy = make()
    means = policy.as_deterministic()(OBSERVATIONS, 3, slice(0, NUM_ENVS))
    assert np.array_equal(means, policy.means(OBSERVATIONS))
    assert np.abs(policy.bounded(means)).max() == 1 < np.abs(means).max()


def test_without_statistics_observations_are_taken_as_they_are() -> None:
    policy = replace(make(), mean=None, scale=None)
    neutral = replace(make(), mean=np.zeros(5), scale=np.ones(5), clip=np.inf)
    assert np.array_equal(policy.means(OBSERVATIONS), neutral.means(OBSERVATIONS))


def test_it_survives_pickle_and_npz() -> None:
    policy = make("tanh")
    expected = policy(OBSERVATIONS, 1, slice(0, NUM_ENVS))
    file = io.BytesIO()
    np.savez(file, **policy.state())
    file.seek(0)
    with np.load(file) as state:
        again = GaussianMlpPolicy.from_state(state)
    for copy in (pickle.loads(pickle.dumps(policy)), again):
        assert np.array_equal(copy(OBSERVATIONS, 1, slice(0, NUM_ENVS)), expected)


def test_what_does_not_fit_is_refused() -> None:
    policy = make()
    with pytest.raises(ValueError, match="activation must be one of"):
        replace(policy, activation="elu")
    with pytest.raises(ValueError, match="follow each other"):
        replace(policy, layers=policy.layers[1:] + policy.layers[:1])
    with pytest.raises(ValueError, match="3 outputs"):
        replace(policy, log_std=np.zeros(4, np.float32))


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    step=st.integers(0, 2**60),
    size=st.integers(1, 40),
    start=st.integers(0, 10_000),
    stop=st.integers(1, 300),
    cut=st.floats(0, 1),
)
def test_noise_does_not_depend_on_the_slice(seed: int, step: int, size: int, start: int, stop: int, cut: float) -> None:
    middle, stop = start + int(cut * stop), start + stop
    whole = standard_normal(seed, step, slice(start, stop), size)
    assert whole.shape == (stop - start, size)
    parts = [standard_normal(seed, step, part, size) for part in (slice(start, middle), slice(middle, stop))]
    assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("size", [1, 6, 8, 17])
def test_noise_is_standard_normal_and_uncorrelated(size: int) -> None:
    noise = np.stack([standard_normal(0, step, slice(0, 500), size) for step in range(100)]).astype(np.float64)
    n = noise.size
    assert abs(noise.mean()) < 4 / np.sqrt(n)
    assert abs(np.square(noise).mean() - 1) < 4 * np.sqrt(2 / n)
    assert abs((noise**4).mean() - 3) < 4 * np.sqrt(96 / n)
    assert abs((noise[1:] * noise[:-1]).mean()) < 4 / np.sqrt(n)  # between steps
    assert abs((noise[:, 1:] * noise[:, :-1]).mean()) < 4 / np.sqrt(n)  # between environments
    if size > 1:
        assert abs((noise[..., 1:] * noise[..., :-1]).mean()) < 4 / np.sqrt(n)  # within an action


def test_noise_never_repeats() -> None:
    rows = np.concatenate([standard_normal(seed, step, slice(0, 100), 4) for seed in range(3) for step in range(20)])
    assert len(np.unique(rows, axis=0)) == len(rows)
