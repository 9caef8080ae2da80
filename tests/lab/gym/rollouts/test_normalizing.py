"""Running statistics against those of all the data at once, and rewards against a written-out loop."""

from __future__ import annotations

import io

import numpy as np
import pytest

from superdex.lab.gym.rollouts import ObservationNormalizer, RewardScaler, Rollout


def rollout_of(
    rewards: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    restarted: np.ndarray | None = None,
    lost: np.ndarray | None = None,
) -> Rollout:
    """A rollout of which only rewards and flags matter; `lost` is a mask (T, N) of what truncated episodes."""
    steps, environments = np.nonzero(terminated | truncated)
    return Rollout(
        observations=np.zeros((*rewards.shape, 1)),
        actions=np.zeros((*rewards.shape, 1)),
        rewards=rewards.astype(np.float32),
        terminated=terminated,
        truncated=truncated,
        last_observation=np.zeros((rewards.shape[1], 1)),
        final_steps=steps,
        final_environments=environments,
        final_observations=np.zeros((len(steps), 1)),
        final_lost=np.zeros(len(steps), np.bool_) if lost is None else lost[steps, environments],
        restarted=np.zeros(rewards.shape[1], np.bool_) if restarted is None else restarted,
    )


def random_rollout(rng: np.random.Generator, shape: tuple[int, int]) -> Rollout:
    terminated, truncated = rng.random(shape) < 0.1, rng.random(shape) < 0.1
    return rollout_of(rng.normal(2, 3, shape), terminated, truncated)


def saved_and_loaded(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    with np.load(file) as loaded:
        return dict(loaded)


def test_statistics_are_those_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    batches = [rng.normal(1e4, 0.1 + i, (7 + i, 3, 4)).astype(np.float32) for i in range(9)]
    normalizer = ObservationNormalizer((4,))
    for batch in batches:
        normalizer.update(batch)
    rows = np.concatenate([batch.reshape(-1, 4) for batch in batches]).astype(np.float64)
    assert normalizer.count == len(rows)
    np.testing.assert_allclose(normalizer.mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(normalizer.variance, rows.var(axis=0), rtol=1e-9)
    normalized = normalizer.normalize(rows)
    assert normalized.dtype == np.float32
    np.testing.assert_allclose(normalized.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(normalized.std(axis=0), 1, rtol=1e-5)


def test_before_any_rows_observations_are_only_clipped() -> None:
    rows = np.array([[1.0, -3.0], [20.0, -20.0]])
    assert ObservationNormalizer((2,), epsilon=0).normalize(rows).tolist() == [[1, -3], [10, -10]]


def test_normalising_does_not_learn() -> None:
    normalizer = ObservationNormalizer((2,))
    normalizer.update(np.random.default_rng(0).normal(size=(5, 2)))
    before = normalizer.state()
    normalizer.normalize(np.full((3, 2), 9.0))
    assert all(np.array_equal(before[key], value) for key, value in normalizer.state().items())


def test_a_loaded_normaliser_goes_on_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    one, other = ObservationNormalizer((2,)), ObservationNormalizer((2,))
    one.update(rng.normal(size=(5, 2)))
    other.load_state(saved_and_loaded(one.state()))
    batch = rng.normal(size=(5, 2))
    one.update(batch)
    other.update(batch)
    assert np.array_equal(one.normalize(batch), other.normalize(batch))


@pytest.mark.parametrize(
    ("rows", "message"),
    [(np.zeros((3, 4)), r"shape \(..., 2\), got \(3, 4\)"), (np.array([[0, np.nan]]), "NaN or infinity")],
)
def test_bad_rows_are_refused_and_change_nothing(rows: np.ndarray, message: str) -> None:
    normalizer = ObservationNormalizer((2,))
    with pytest.raises(ValueError, match=message):
        normalizer.update(rows)
    assert normalizer.count == 0
    assert np.isfinite(normalizer.mean).all()


def test_rewards_are_divided_by_the_deviation_of_the_discounted_return() -> None:
    rng, gamma = np.random.default_rng(0), 0.9
    scaler = RewardScaler(3, gamma)
    seen: list[float] = []
    running = [0.0] * 3
    for _ in range(4):
        rollout = random_rollout(rng, (11, 3))
        scaled = scaler.scale(rollout)
        for t in range(11):
            for i in range(3):
                running[i] = gamma * running[i] + float(rollout.rewards[t, i])
                seen.append(running[i])
                if rollout.terminated[t, i] or rollout.truncated[t, i]:
                    running[i] = 0.0
        np.testing.assert_allclose(scaled, rollout.rewards / np.std(seen), rtol=1e-5)


def test_a_loaded_scaler_goes_on_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    one, other = RewardScaler(3, 0.9), RewardScaler(3, 0.9)
    one.scale(random_rollout(rng, (5, 3)))
    other.load_state(saved_and_loaded(one.state()))
    following = random_rollout(rng, (5, 3))
    assert np.array_equal(one.scale(following), other.scale(following))
    with pytest.raises(ValueError, match="of 3 environments, here are 4"):
        RewardScaler(4, 0.9).load_state(one.state())
