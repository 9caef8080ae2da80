"""Stable-Baselines3 sees what it sees through its own `DummyVecEnv` over the same environments."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor, VecNormalize

from superdex.lab.gym.adapters.sb3 import Sb3VecEnv
from superdex.lab.gym.envs.benchmarks import AntEnv, CartPoleEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv

NUM_ENVS, LIMIT = 5, 13
FIELDS = {"steps_per_episode": LIMIT, "reset_noise_scale": 0.05}


def make(task: type = CartPoleEnv, num_envs: int = NUM_ENVS, copy: bool = True, **options: Any) -> Sb3VecEnv:
    envs = SceneVectorEnv(task, num_envs=num_envs, num_threads=1, autoreset_mode="SameStep", copy=copy, **FIELDS)
    return Sb3VecEnv(envs, **options)


def make_dummy(task: type = CartPoleEnv) -> VecEnv:
    return DummyVecEnv([lambda: Monitor(task(**FIELDS)) for _ in range(NUM_ENVS)])


@pytest.fixture
def adapter() -> Iterator[Sb3VecEnv]:
    adapter = make()
    yield adapter
    adapter.close()


def actions_of(envs: VecEnv, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shape = (envs.num_envs, *envs.action_space.shape)
    return [rng.uniform(envs.action_space.low, envs.action_space.high, shape).astype(np.float32) for _ in range(count)]


def same_info(actual: dict, expected: dict) -> bool:
    return actual.keys() == expected.keys() and all(np.array_equal(actual[key], expected[key]) for key in expected)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("task", [CartPoleEnv, AntEnv])
def test_it_gives_what_dummy_vec_env_gives(task: type, copy: bool) -> None:
    ours, theirs = make(task, copy=copy), make_dummy(task)
    for envs in (ours, theirs):
        assert envs.seed(7) == [7, 8, 9, 10, 11]
    assert np.array_equal(ours.reset(), theirs.reset())
    assert all(map(same_info, ours.reset_infos, theirs.reset_infos))
    ends, kept = 0, []
    for action in actions_of(ours, 4 * LIMIT):
        (obs, rewards, dones, infos), expected = ours.step(action), theirs.step(action)
        kept.append((obs, obs.copy()))
        for actual, value in zip((obs, rewards, dones), expected[:3], strict=True):
            assert np.array_equal(actual, value)
            assert actual.dtype == value.dtype
        for row in np.flatnonzero(dones):
            ends += 1
            info = dict(infos[row])
            wanted = dict(expected[3][row])
            episode, other = info.pop("episode"), wanted.pop("episode")
            assert (episode["r"], episode["l"]) == (pytest.approx(other["r"], abs=2e-6), other["l"])
            assert set(episode) == set(other) == {"r", "l", "t"}
            assert same_info(info, wanted)
            assert same_info(ours.reset_infos[row], theirs.reset_infos[row])
        assert all(not infos[row] for row in np.flatnonzero(~dones))
    assert ends >= 4 * NUM_ENVS
    assert all(np.array_equal(obs, then) for obs, then in kept)  # a learner keeps them
    ours.close()


def test_a_task_that_ends_its_episode_is_not_said_to_be_cut_off(adapter: Sb3VecEnv) -> None:
    adapter.seed(0)
    adapter.reset()
    flags = set()
    for action in actions_of(adapter, 60):
        *_, dones, infos = adapter.step(np.sign(action) * 3 if len(flags) else action * 0)
        flags |= {(infos[row]["TimeLimit.truncated"], infos[row]["terminated_reason"]) for row in np.flatnonzero(dones)}
    assert flags == {(True, None), (False, "Pole angle exceeded threshold")}


def test_infos_of_running_episodes_cannot_be_spoilt(adapter: Sb3VecEnv) -> None:
    adapter.reset()
    *_, infos = adapter.step(actions_of(adapter, 1)[0])
    assert infos[0].get("episode") is None
    assert infos[0].copy() == deepcopy(infos)[0] == {}
    for spoil in (lambda info: info.update(a=1), lambda info: info.__setitem__("a", 1), lambda info: info.pop("a", 1)):
        if spoil(infos[0].copy()) != 1:
            with pytest.raises(TypeError, match="copy it to change it"):
                spoil(infos[0])


def test_seeds_and_options_count_once() -> None:
    adapter = make()
    adapter.seed(3)
    first, second = adapter.reset(), adapter.reset()
    adapter.seed(3)
    adapter.set_options({"note": 1})
    assert np.array_equal(adapter.reset(), first)
    assert np.array_equal(adapter.reset(), second)
    adapter.set_options([{"note": index} for index in range(NUM_ENVS)])
    with pytest.raises(ValueError, match="one dict for all environments"):
        adapter.reset()
    adapter.close()


def test_observations_are_normalised_as_vec_normalize_does() -> None:
    ours, theirs = make(normalize_observations=True), VecNormalize(make_dummy(), norm_reward=False, clip_obs=10)
    theirs.obs_rms.count = 0  # it would begin with a small part of an imagined row
    for envs in (ours, theirs):
        envs.seed(0)
    np.testing.assert_allclose(ours.reset(), theirs.reset(), rtol=1e-6)
    for number, action in enumerate(actions_of(ours, 3 * LIMIT)):
        ours.training = theirs.training = number < 2 * LIMIT
        (obs, rewards, dones, infos), expected = ours.step(action), theirs.step(action)
        assert obs.dtype == np.float32
        np.testing.assert_allclose(obs, expected[0], rtol=1e-5, atol=1e-6)
        assert np.array_equal(rewards, expected[1])
        for row in np.flatnonzero(dones):
            final, wanted = (each[row]["terminal_observation"] for each in (infos, expected[3]))
            np.testing.assert_allclose(final, wanted, rtol=1e-5, atol=1e-6)
    assert ours.normalizer is not None
    assert ours.normalizer.count == NUM_ENVS * (2 * LIMIT + 1)
    assert ours.observation_space == gymnasium.spaces.Box(-10, 10, (4,), np.float32)
    ours.close()


def test_statistics_are_saved_and_loaded(tmp_path: Path) -> None:
    one, other, plain = (make(normalize_observations=flag) for flag in (True, True, False))
    one.reset()
    one.step(actions_of(one, 1)[0])
    one.save_normalizer(tmp_path / "normalizer.npz")
    other.load_normalizer(tmp_path / "normalizer.npz")
    one.training = other.training = False
    for adapter in (one, other):
        adapter.seed(1)
    assert np.array_equal(one.reset(), other.reset())
    with pytest.raises(ValueError, match="normalize_observations=True"):
        plain.save_normalizer(tmp_path / "none.npz")
    for adapter in (one, other, plain):
        adapter.close()


def test_evaluation_shares_the_statistics_of_training() -> None:
    trained = make(normalize_observations=True, clip_observations=0.5)
    trained.seed(0)
    trained.reset()
    evaluated = make(normalizer=trained.normalizer, training=False)
    assert evaluated.observation_space == trained.observation_space
    trained.step(actions_of(trained, 1)[0])  # after which the statistics are others
    evaluated.seed(1)
    seen = evaluated.reset()
    evaluated.step(actions_of(evaluated, 1)[0])
    assert trained.normalizer is not None
    assert trained.normalizer.count == 2 * NUM_ENVS
    assert evaluated.last_observation is not None
    evaluated.seed(1)
    evaluated.reset()
    assert np.array_equal(seen, trained.normalizer.normalize(evaluated.last_observation))
    assert np.abs(seen).max() == 0.5
    with pytest.raises(ValueError, match=r"of shape \(4,\), these are \(81,\)"):
        make(AntEnv, normalizer=trained.normalizer)
    for adapter in (trained, evaluated):
        adapter.close()


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_other_autoreset_modes_are_refused(mode: str) -> None:
    with (
        SceneVectorEnv(CartPoleEnv, num_envs=2, autoreset_mode=mode) as envs,
        pytest.raises(ValueError, match="Sb3VecEnv needs a vector environment in SAME_STEP mode"),
    ):
        Sb3VecEnv(envs)


def test_calls_out_of_order_are_refused(adapter: Sb3VecEnv) -> None:
    with pytest.raises(RuntimeError, match="step_async"):
        adapter.step_wait()
    with pytest.raises(RuntimeError, match=r"reset\(\) before collect"):
        adapter.collect(lambda *_: np.zeros((NUM_ENVS, 1), np.float32), 1)


def test_attributes_and_methods_of_chosen_environments(adapter: Sb3VecEnv) -> None:
    adapter.set_attr("mark", 1)
    adapter.set_attr("mark", 2, indices=[0, 3])
    assert adapter.get_attr("mark") == [2, 1, 1, 2, 1]
    assert adapter.get_attr("mark", indices=3) == adapter.get_attr("mark", 0) == [2]
    assert adapter.has_attr("mark")
    assert not adapter.has_attr("missing")
    assert adapter.env_method("has_wrapper_attr", "mark") == [True] * NUM_ENVS
    assert adapter.env_method("has_wrapper_attr", "mark", indices=[1, 2]) == [True] * 2
    assert adapter.env_is_wrapped(Monitor, indices=[0]) == [True]
    assert adapter.env_is_wrapped(gymnasium.wrappers.TimeLimit) == [False] * NUM_ENVS


def test_an_attribute_is_not_called(adapter: Sb3VecEnv) -> None:
    dummy = make_dummy()
    for name in ("capture_state", "has_wrapper_attr", "np_random_seed"):
        assert adapter.has_attr(name) == dummy.has_attr(name) is True
        for ours, theirs in zip(adapter.get_attr(name), dummy.get_attr(name), strict=True):
            assert callable(ours) == callable(theirs)
    assert not adapter.has_attr("missing")
    calls: list[int] = []
    adapter.set_attr("hook", calls.append)
    adapter.set_attr("hook", len, indices=[0])
    assert adapter.get_attr("hook") == [len, *[calls.append] * (NUM_ENVS - 1)]
    with pytest.raises(AttributeError, match="missing"):
        adapter.get_attr("missing")


def test_environments_of_other_processes_are_reached_alone_or_together() -> None:
    envs = HybridVectorEnv([lambda: CartPoleEnv(**FIELDS)] * 4, 2, autoreset_mode="SameStep")
    adapter = Sb3VecEnv(envs)
    adapter.set_attr("mark", 2, indices=None)
    assert adapter.get_attr("mark") == adapter.env_method("get_wrapper_attr", "mark") == [2] * 4
    adapter.set_attr("mark", 5, indices=[3])
    assert adapter.env_method("get_wrapper_attr", "mark", indices=[3, 0]) == [5, 2]
    assert adapter.get_attr("mark", indices=-1) == [5]
    assert adapter.has_attr("capture_state")
    assert not adapter.has_attr("missing")
    assert adapter.env_is_wrapped(Monitor) == [True] * 4
    with pytest.raises(NotImplementedError, match="HybridVectorEnv live in other processes"):
        adapter.env_is_wrapped(gymnasium.wrappers.TimeLimit)
    adapter.seed(0)
    with make(num_envs=4).envs as same:
        assert np.array_equal(adapter.reset(), same.reset(seed=0)[0])
    adapter.close()


def test_without_pictures_there_are_none(adapter: Sb3VecEnv) -> None:
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert adapter.get_images() == [None] * NUM_ENVS


def test_pictures_of_all_environments_are_tiled() -> None:
    frames = tuple(np.full((2, 3, 3), index, np.uint8) for index in range(4))
    adapter = make(num_envs=4)
    adapter.render_mode = "rgb_array"
    adapter.envs.render = lambda: frames  # type: ignore[method-assign]
    picture = adapter.render()
    assert picture is not None
    assert picture[::2, ::3, 0].tolist() == [[0, 1], [2, 3]]
    adapter.close()


def test_ppo_of_the_library_learns_from_it_and_logs_returns(adapter: Sb3VecEnv) -> None:
    model = PPO("MlpPolicy", adapter, n_steps=16, batch_size=40, n_epochs=1, seed=0, device="cpu")
    model.set_logger(Logger(None, []))
    model.learn(4 * 16 * NUM_ENVS)
    assert model.ep_info_buffer is not None
    assert {info["l"] for info in model.ep_info_buffer} == {LIMIT}
    mean, deviation = evaluate_policy(model, adapter, n_eval_episodes=7)
    assert (mean, deviation) == (LIMIT, 0)


def test_sac_and_wrappers_of_the_library_take_it(adapter: Sb3VecEnv) -> None:
    with pytest.warns(UserWarning, match="already wrapped with a `Monitor`"):
        wrapped = VecNormalize(VecMonitor(adapter))
    model = SAC("MlpPolicy", wrapped, learning_starts=50, batch_size=32, train_freq=8, seed=0, device="cpu")
    model.learn(200)
    buffer = model.replay_buffer
    assert buffer is not None
    ends, timeouts = (flags[: buffer.pos].astype(bool) for flags in (buffer.dones, buffer.timeouts))
    assert timeouts.sum() >= NUM_ENVS
    assert not (timeouts & ~ends).any()


def test_learners_with_a_replay_buffer_normalise_what_they_draw(adapter: Sb3VecEnv) -> None:
    """As the documentation says to do it: what is stored is as the environments gave it, and scaled when drawn."""
    seen: list[np.ndarray] = []
    finals: dict[tuple[int, int], np.ndarray] = {}
    take = adapter.step_wait

    def step_wait() -> Any:
        seen.append(np.array(adapter.last_observation))
        result = take()
        finals.update(
            {(len(seen) - 1, row): result[3][row]["terminal_observation"] for row in np.flatnonzero(result[2])}
        )
        return result

    adapter.step_wait = step_wait  # type: ignore[method-assign]
    normalized = VecNormalize(adapter, norm_reward=False)
    model = SAC("MlpPolicy", normalized, learning_starts=10**6, buffer_size=10**4, seed=0, device="cpu")
    model.set_logger(Logger(None, []))
    model.learn(3 * LIMIT * NUM_ENVS)
    buffer = model.replay_buffer
    assert buffer is not None
    assert np.array_equal(buffer.observations[: buffer.pos], seen)
    assert len(finals) >= 3 * NUM_ENVS
    for (step, row), final in finals.items():
        np.testing.assert_allclose(buffer.next_observations[step, row], final, rtol=1e-4, atol=1e-5)
    drawn = buffer.sample(1000, env=model._vec_normalize_env).observations.numpy()
    present = normalized.normalize_obs(np.concatenate(seen))
    assert all(np.abs(present - row).max(axis=1).min() < 1e-5 for row in drawn[:50])
    assert np.abs(drawn.std(axis=0) - 1).max() < 0.2


def test_a_worker_that_dies_finishes_no_episode() -> None:
    tasks = [lambda: CartPoleEnv(**FIELDS)] * 4
    envs = HybridVectorEnv(tasks, 2, autoreset_mode="SameStep", on_worker_failure="restart")
    adapter = Sb3VecEnv(envs)
    adapter.seed(0)
    adapter.reset()
    still = np.zeros((4, 1), np.float32)
    adapter.step(still)
    victim = max(multiprocessing.active_children(), key=lambda child: child.pid or 0)
    victim.kill()
    victim.join()
    *_, dones, infos = adapter.step(still)
    lost = np.flatnonzero(dones).tolist()
    assert lost in ([0, 1], [2, 3])
    assert all("episode" not in infos[row] and infos[row]["TimeLimit.truncated"] for row in lost)
    for _ in range(LIMIT):
        *_, dones, infos = adapter.step(still)
    assert np.flatnonzero(dones).tolist() == lost
    assert [infos[row]["episode"]["l"] for row in lost] == [LIMIT] * 2
    adapter.close()


def test_episodes_are_counted_across_collected_and_single_steps(adapter: Sb3VecEnv) -> None:
    adapter.seed(0)
    adapter.reset()
    adapter.collect(lambda *_: np.zeros((NUM_ENVS, 1), np.float32), LIMIT - 1)
    *_, dones, infos = adapter.step(np.zeros((NUM_ENVS, 1), np.float32))
    assert dones.all()
    assert [info["episode"]["l"] for info in infos] == [LIMIT] * NUM_ENVS
