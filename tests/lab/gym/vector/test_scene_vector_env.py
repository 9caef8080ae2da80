"""`SceneVectorEnv`: construction, selective resets, and what it refuses."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from superdex.lab.gym.envs import MochiEnv, SceneManager
from superdex.lab.gym.envs.benchmarks import AntEnv, CartPoleCfg, CartPoleEnv, HalfCheetahEnv
from superdex.lab.gym.envs.gymnasium_v5 import AntV5Env
from superdex.lab.gym.utils.vector import BatchedStepResult, HybridVectorEnv, SceneVectorEnv
from tests.lab.gym.vector.comparing import assert_same


def zeros(env: Any) -> np.ndarray:
    return np.zeros(env.action_space.shape, env.action_space.dtype)


def test_is_a_vector_env_with_its_attributes() -> None:
    with SceneVectorEnv(CartPoleEnv, 5) as env:
        assert isinstance(env, VectorEnv)
        assert env.num_envs == 5
        assert env.single_observation_space.shape == (4,)
        assert env.observation_space.shape == (5, 4)
        assert env.action_space.shape == (5, 1)
        assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        env.reset(seed=0)
        result = env.step(zeros(env))
        assert isinstance(result, BatchedStepResult)
        assert result.observation.dtype == np.float32


def test_a_class_with_configuration_is_the_same_as_factories() -> None:
    cfg = CartPoleCfg(steps_per_episode=9, actuate_on_pole=True)
    makers = [
        partial(SceneVectorEnv, CartPoleEnv, 4, cfg),
        partial(SceneVectorEnv, CartPoleEnv, 4, {"steps_per_episode": 9}, actuate_on_pole=True),
        partial(SceneVectorEnv, [partial(CartPoleEnv, cfg)] * 4),
    ]
    rollouts = []
    for make in makers:
        with make() as env:
            env.reset(seed=1)
            rollouts.append([tuple(env.step(zeros(env))) for _ in range(20)])
    assert_same(rollouts[1], rollouts[0])
    assert_same(rollouts[2], rollouts[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(SceneVectorEnv, []), "at least one factory"),
        (partial(SceneVectorEnv, CartPoleEnv), "num_envs says how many.*got None"),
        (partial(SceneVectorEnv, CartPoleEnv, 0), "at least 1, got 0"),
        (partial(SceneVectorEnv, gymnasium.Env, 2), "takes a MochiEnv class"),
        (partial(SceneVectorEnv, [CartPoleEnv], 1, {"use_gravity": False}), "go with a class"),
        (partial(SceneVectorEnv, CartPoleEnv, 2, num_threads=-1), "num_threads must be at least 0"),
        (partial(SceneVectorEnv, CartPoleEnv, 2, num_threads=1.5), "num_threads must be an int"),
        (partial(SceneVectorEnv, CartPoleEnv, 2.0), "num_envs must be an int"),
        (partial(SceneVectorEnv, CartPoleEnv, 2, autoreset_mode="Never"), "autoreset_mode must be"),
        (partial(SceneVectorEnv, CartPoleEnv, 2, use_gravty=False), "no field 'use_gravty'. Did you mean"),
        (partial(SceneVectorEnv, [partial(gymnasium.make, "Pendulum-v1")]), "environment 0 is .*HybridVectorEnv"),
    ],
)
def test_impossible_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_environments_of_different_spaces_are_refused_by_index_and_closed() -> None:
    class OwnCheetahEnv(HalfCheetahEnv):
        """Nobody else's scenes are counted with its own."""

    with pytest.raises(RuntimeError, match="environment 2 has"):
        SceneVectorEnv([CartPoleEnv, CartPoleEnv, OwnCheetahEnv])
    assert SceneManager.get_instance("OwnCheetahEnv").scene_count == 0


def test_a_reset_mask_resets_those_environments_alone_as_in_gymnasium() -> None:
    factories = [partial(CartPoleEnv, steps_per_episode=5)] * 6
    ours = SceneVectorEnv(factories, autoreset_mode=AutoresetMode.DISABLED)
    theirs = SyncVectorEnv(factories, autoreset_mode=AutoresetMode.DISABLED)
    for env in (ours, theirs):
        env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(60):
        actions = rng.uniform(-3, 3, (6, 1)).astype(np.float32)
        result = ours.step(actions)
        assert_same(tuple(result), theirs.step(actions))
        ended = result.terminated | result.truncated
        if ended.any():
            options = {"reset_mask": ended, "other": 1}
            assert_same(ours.reset(options=options), theirs.reset(options={"reset_mask": ended}))
            assert set(options) == {"reset_mask", "other"}
    ours.close()
    theirs.close()


def test_a_masked_reset_takes_the_seeds_of_the_chosen_environments() -> None:
    with SceneVectorEnv(CartPoleEnv, 4) as env:
        first, _ = env.reset(seed=[1, 2, 3, 4])
        again, _ = env.reset(seed=[9, 9, 3, 9], options={"reset_mask": np.array([False, False, True, False])})
        assert_same(again, first)


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        ([True, False], TypeError),
        (np.array([1, 0]), TypeError),
        (np.array([True, False, True]), ValueError),
        (np.array([False, False]), ValueError),
    ],
)
def test_a_bad_reset_mask_is_refused_and_changes_nothing(mask: Any, error: type[Exception]) -> None:
    with SceneVectorEnv(CartPoleEnv, 2) as env, SceneVectorEnv(CartPoleEnv, 2) as twin:
        env.reset(seed=0)
        twin.reset(seed=0)
        with pytest.raises(error, match="reset_mask"):
            env.reset(options={"reset_mask": mask})
        assert_same(tuple(env.step(zeros(env))), tuple(twin.step(zeros(twin))))


def test_stepping_an_ended_episode_without_autoreset_is_refused() -> None:
    with SceneVectorEnv(CartPoleEnv, 2, autoreset_mode="Disabled", steps_per_episode=1) as env:
        env.reset(seed=0)
        env.step(zeros(env))
        with pytest.raises(ResetNeeded, match=r"environments \[0, 1\] have ended"):
            env.step(zeros(env))
        env.reset()
        env.step(zeros(env))


def test_actions_are_clipped_to_the_space() -> None:
    with SceneVectorEnv(CartPoleEnv, 2) as env:
        env.reset(seed=[5, 5])
        result = env.step(np.array([[3.0], [1000.0]], np.float32))
        assert_same(result.observation[0], result.observation[1])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_action_that_is_not_finite_names_the_environment_and_steps_nothing(value: float) -> None:
    with SceneVectorEnv(CartPoleEnv, 3) as env, SceneVectorEnv(CartPoleEnv, 3) as twin:
        env.reset(seed=0)
        twin.reset(seed=0)
        actions = zeros(env)
        actions[1] = value
        with pytest.raises(ValueError, match="environment 1"):
            env.step(actions)
        assert_same(tuple(env.step(zeros(env))), tuple(twin.step(zeros(twin))))


def test_a_diverged_simulation_ends_its_own_episode_only(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes MUJOCO_LOG.TXT
    with SceneVectorEnv(CartPoleEnv, 3) as env, SceneVectorEnv(CartPoleEnv, 3) as twin:
        env.reset(seed=0)
        twin.reset(seed=0)
        env.envs[1].unwrapped.batch.physics.field("qvel")[:] = 1e12
        result, expected = env.step(zeros(env)), twin.step(zeros(twin))
        assert result.terminated.tolist() == [False, True, False]
        assert result.info["terminated_reason"].tolist() == [None, "Simulation diverged", None]
        assert np.isfinite(result.observation).all()
        assert result.reward[1] == 0
        for index in (0, 2):
            assert_same(result.observation[index], expected.observation[index])
        for _ in range(5):
            result, expected = env.step(zeros(env)), twin.step(zeros(twin))
            for index in (0, 2):
                assert_same(result.observation[index], expected.observation[index])
        assert np.isfinite(result.observation).all()


def test_closing_releases_the_scene_and_refuses_further_use() -> None:
    class OwnCartPoleEnv(CartPoleEnv):
        """Nobody else's scenes are counted with its own."""

    env = SceneVectorEnv(OwnCartPoleEnv, 3)
    env.reset(seed=0)
    manager = SceneManager.get_instance("OwnCartPoleEnv")
    assert list(manager.scene_info.values()) == [3]
    env.close()
    env.close()
    assert manager.scene_count == 0
    with pytest.raises(ClosedEnvironmentError, match="closed"):
        env.step(zeros(env))
    with pytest.raises(ClosedEnvironmentError, match="closed"):
        env.reset()


def test_attributes_and_methods_of_the_environments() -> None:
    with SceneVectorEnv(CartPoleEnv, 2) as env:
        env.reset(seed=[3, 4])
        assert env.np_random_seed == (3, 4)
        assert [cfg.control_frequency for cfg in env.get_attr("cfg")] == [25, 25]
        env.set_attr("mark", ["a", "b"])
        assert env.get_attr("mark") == ("a", "b")
        with pytest.raises(AttributeError, match="no_such_thing"):
            env.call("no_such_thing")
        env.step(zeros(env))


class GainEnv(CartPoleEnv):
    """Reads an attribute in a hook."""

    gain = 1.0

    def _apply_action(self, sim: Any, action: Any) -> None:
        sim.ctrl[:, 0] = self.gain * action["control"][:, 0]


def with_gain(gain: float) -> GainEnv:
    env = GainEnv()
    env.gain = gain
    return env


@pytest.mark.parametrize("num_envs_per_worker", [None, 4, 2, 1])
def test_environments_whose_attributes_differ_do_not_share_a_batch(num_envs_per_worker: int | None) -> None:
    factories = [partial(with_gain, gain) for gain in (0.5, 1.0, 0.5, 2.0)]
    alone = SyncVectorEnv(factories)
    expected = [alone.reset(seed=0), *(alone.step(np.ones((4, 1), np.float32)) for _ in range(5))]
    ours = SceneVectorEnv(factories) if num_envs_per_worker is None else HybridVectorEnv(factories, num_envs_per_worker)
    with ours as env:
        results = [env.reset(seed=0), *(tuple(env.step(np.ones((4, 1), np.float32))) for _ in range(5))]
        assert {inner.kind for inner in env.inner_backends} == {"native"}
    assert_same(results, expected)


@pytest.mark.parametrize("make", [partial(SceneVectorEnv, [GainEnv] * 4), partial(HybridVectorEnv, [GainEnv] * 4, 2)])
def test_an_attribute_that_hooks_may_read_cannot_differ_within_a_batch(make: Any) -> None:
    alone = SyncVectorEnv([GainEnv] * 4)
    with make() as env:
        for each in (env, alone):
            each.reset(seed=0)
        with pytest.raises(ValueError, match="'gain' cannot differ between environments 0 and 1.*task_state"):
            env.set_attr("gain", [0.0, 1.0, 2.0, 3.0])
        assert env.get_attr("gain") == (1.0,) * 4
        for marks in (("a", "a", "a", "a"), ("a", "b", "c", "d"), ("d", "c", "b", "a")):  # no hook knows them
            env.set_attr("mark", marks)
            assert env.get_attr("mark") == marks
        for each in (env, alone):
            each.set_attr("gain", 0.25)
        assert_same(tuple(env.step(np.ones((4, 1), np.float32))), alone.step(np.ones((4, 1), np.float32)))


@pytest.mark.parametrize("cls", [CartPoleEnv, AntEnv, AntV5Env, GainEnv])
def test_fresh_and_used_environments_of_a_task_are_one_batch(cls: type[MochiEnv]) -> None:
    """Whatever they were used for, they differ in nothing but what the task declares as each one's own."""

    def used(index: int) -> MochiEnv:
        env = cls(render_mode="rgb_array", render_size=(8, 8), use_shared_scenes=True)
        if index:
            env.reset(seed=index)
            env.step(env.action_space.sample())
        if index > 1:
            env.render()
            env.restore_state(env.capture_state())
            repr((env.observation_space, env.dt, env.np_random, env.spec))
        return env

    with SceneVectorEnv([partial(used, index) for index in range(4)]) as env:
        assert [inner.kind for inner in env.inner_backends] == ["native"]
        changed = set().union(*(vars(each) for each in env.envs)) - set(vars(cls()))
        assert changed <= cls.own_attributes


def test_without_autoreset_flags_are_the_callers_to_change() -> None:
    """With copy=False they are views of what the next step writes, but not what it decides by."""
    with SceneVectorEnv(CartPoleEnv, 3, steps_per_episode=2, autoreset_mode="Disabled", copy=False) as env:
        env.reset(seed=0)
        env.step(zeros(env))
        result = env.step(zeros(env))
        assert result.truncated.all()
        result.truncated[:] = False
        with pytest.raises(ResetNeeded, match=r"environments \[0, 1, 2\] have ended"):
            env.step(zeros(env))
        env.reset(options={"reset_mask": np.array([True, False, True])})
        with pytest.raises(ResetNeeded, match=r"environments \[1\] have ended"):
            env.step(zeros(env))
        state = env.capture_state()
        env.reset()
        flags = env.step(zeros(env))
        flags.terminated[:] = flags.truncated[:] = True
        env.step(zeros(env))
        env.restore_state(state)
        with pytest.raises(ResetNeeded, match=r"environments \[1\] have ended"):
            env.step(zeros(env))


def test_what_raised_is_named() -> None:
    class FailingEnv(CartPoleEnv):
        def _apply_action(self, sim: Any, action: Any) -> None:
            raise KeyError("torqe")

    with SceneVectorEnv(FailingEnv, 3) as env:
        env.reset(seed=0)
        with pytest.raises(KeyError) as error:
            env.step(zeros(env))
        assert error.value.__notes__ == ["Raised in a native batch of 3 x FailingEnv."]
    with pytest.raises(ZeroDivisionError) as division:
        SceneVectorEnv([CartPoleEnv, lambda: 1 / 0])  # type: ignore[list-item, return-value]
    assert division.value.__notes__ == ["Raised by the factory of environment 1."]


class ThreadedEnv(CartPoleEnv):
    """Knows on how many threads the batch that it is part of steps."""

    def num_threads(self) -> int:
        return self.batch.physics._batch.nthread


@pytest.mark.parametrize(
    ("argument", "configured", "expected"), [(0, 0, (os.cpu_count(), 1)), (0, 3, (3, 3)), (2, 3, (2, 2))]
)
def test_the_number_of_threads_is_an_argument_or_configured(
    argument: int, configured: int, expected: tuple[int, int]
) -> None:
    """The same in this process and in workers, but for what neither says."""
    factories = [partial(ThreadedEnv, num_worker_threads=configured)] * 8
    with (
        SceneVectorEnv(factories, num_threads=argument) as scene,
        HybridVectorEnv(factories, 8, num_threads_per_worker=argument) as hybrid,
    ):
        assert (scene.call("num_threads")[0], hybrid.call("num_threads")[0]) == expected
