"""Per-environment physics: each environment its own, and equal to a private model built with those values."""

from __future__ import annotations

import copy
from typing import Any

import mujoco
import numpy as np
import pytest

from superdex.lab.gym.envs import MochiEnv, SceneManager
from superdex.lab.gym.envs.benchmarks import AntEnv, CartPoleEnv, HalfCheetahEnv
from superdex.lab.gym.envs.randomization import SCALED_FIELDS
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv

TASKS: list[type[MochiEnv]] = [CartPoleEnv, HalfCheetahEnv, AntEnv]
SPREAD = 0.3


class LightEnv(CartPoleEnv):
    """Draws its own gravity, and observes it."""

    def __init__(self, cfg: Any = None, **overrides: Any) -> None:
        super().__init__(cfg, **overrides)
        self.randomized_fields = ("opt.gravity", "body_mass")

    def _randomize(self, sim: Any) -> None:
        sim.parameter("opt.gravity")[:, 2] = -10 * sim.random(1)[:, 0]

    def _make_observation(self, sim: Any) -> Any:
        observation, info = super()._make_observation(sim)
        return observation, {**info, "gravity": sim.parameter("opt.gravity")[:, 2]}


def private_model(env: MochiEnv) -> mujoco.MjModel:
    """A model of its own with the values that the environment drew."""

    model = copy.copy(env.scene.model)
    for name in env.randomized_fields:
        value = env.batch.physics.parameter(name)[0]
        if name.startswith("opt."):
            getattr(model.opt, name[4:])[:] = value
        else:
            getattr(model, name)[:] = value
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


@pytest.mark.parametrize("cls", [*TASKS, LightEnv])
def test_an_environment_equals_a_private_model_with_its_values(cls: type[MochiEnv]) -> None:
    envs = [cls(randomize_physics=SPREAD) for _ in range(3)]
    for index, env in enumerate(envs):
        env.reset(seed=index)
    rng = np.random.default_rng(0)
    spec = mujoco.mjtState.mjSTATE_INTEGRATION.value
    for env in envs:
        model = private_model(env)
        data = mujoco.MjData(model)
        mujoco.mj_setState(model, data, env.batch.physics.state[0], spec)
        for _ in range(20):
            env.step(rng.uniform(env.action_space.low, env.action_space.high).astype(np.float32))
            data.ctrl[:] = env.batch.physics.field("ctrl")[0]
            for _ in range(env.cfg.num_substeps):
                mujoco.mj_step(model, data)
            assert np.array_equal(data.qpos, env.batch.physics.field("qpos")[0])
            assert np.array_equal(data.qvel, env.batch.physics.field("qvel")[0])


@pytest.mark.parametrize("cls", TASKS)
def test_each_reset_draws_from_the_environments_own_generator(cls: type[MochiEnv]) -> None:
    one, other = cls(randomize_physics=SPREAD), cls(randomize_physics=SPREAD)
    nominal = {name: getattr(one.scene.model, name).copy() for name in SCALED_FIELDS}
    drawn = []
    for env, seed in ((one, 1), (other, 2), (one, 1), (one, None)):
        env.reset(seed=seed)
        drawn.append({name: env.batch.physics.parameter(name)[0].copy() for name in SCALED_FIELDS})
    for name in SCALED_FIELDS:
        assert np.array_equal(drawn[0][name], drawn[2][name])
        assert (np.abs(drawn[3][name] - nominal[name]) <= SPREAD * np.abs(nominal[name]) + 1e-12).all()
        assert np.array_equal(getattr(one.scene.model, name), nominal[name]), "the shared model must not change"
    assert not np.array_equal(drawn[0]["body_mass"], drawn[1]["body_mass"])
    assert not np.array_equal(drawn[0]["body_mass"], drawn[3]["body_mass"])


@pytest.mark.parametrize("cls", TASKS)
def test_it_neither_needs_a_scene_of_its_own_nor_touches_those_who_share_it(cls: type[MochiEnv]) -> None:
    plain, alone = cls(), cls(use_shared_scenes=False)
    wild = cls(randomize_physics=0.9)
    assert plain.scene is wild.scene
    assert SceneManager.get_instance(cls.__name__).scene_count == 1
    for env in (plain, alone, wild):
        env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(10):
        action = rng.uniform(plain.action_space.low, plain.action_space.high).astype(np.float32)
        wild.step(action)
        assert np.array_equal(plain.step(action)[0], alone.step(action)[0])
    wild.close()
    again = cls(randomize_physics=0.1)  # gets the row that was given back
    again.reset(seed=0)
    fresh = cls(randomize_physics=0.1, use_shared_scenes=False)
    fresh.reset(seed=0)
    assert np.array_equal(again.step(action)[0], fresh.step(action)[0])
    for env in (plain, again):
        env.close()


@pytest.mark.parametrize("cls", [*TASKS, LightEnv])
def test_batches_give_the_rollout_of_environments_alone(cls: type[MochiEnv]) -> None:
    num, fields = 6, {"randomize_physics": SPREAD, "steps_per_episode": 7}
    alone = [cls(fields) for _ in range(num)]
    with SceneVectorEnv(cls, num, fields) as scene, HybridVectorEnv([lambda: cls(fields)] * num, 3) as hybrid:
        first = np.stack([env.reset(seed=index)[0] for index, env in enumerate(alone)])
        assert np.array_equal(scene.reset(seed=0)[0], first)
        assert np.array_equal(hybrid.reset(seed=0)[0], first)
        ended = np.zeros(num, np.bool_)
        rng = np.random.default_rng(0)
        for _ in range(40):
            actions = rng.uniform(-1, 1, scene.action_space.shape).astype(np.float32)
            expected = []
            for index, env in enumerate(alone):
                if ended[index]:
                    expected.append(env.reset()[0])
                    ended[index] = False
                else:
                    observation, _, terminated, truncated, _ = env.step(actions[index])
                    expected.append(observation)
                    ended[index] = terminated or truncated
            for vector in (scene, hybrid):
                assert np.array_equal(vector.step(actions).observation, np.stack(expected))


@pytest.mark.parametrize("cls", TASKS)
def test_it_is_part_of_the_state(cls: type[MochiEnv]) -> None:
    env, other = cls(randomize_physics=SPREAD), cls(randomize_physics=SPREAD)
    env.reset(seed=4)
    other.reset(seed=5)
    other.restore_state(env.capture_state())
    action = np.ones(env.action_space.shape, np.float32)
    for _ in range(5):
        assert np.array_equal(env.step(action)[0], other.step(action)[0])


def test_hooks_may_read_but_not_write_it() -> None:
    class WritingEnv(LightEnv):
        def _apply_action(self, sim: Any, action: Any) -> None:
            sim.parameter("opt.gravity")[:] = 0

    env = LightEnv()
    _, info = env.reset(seed=0)
    assert -10 < info["gravity"] < 0
    writing = WritingEnv()
    writing.reset(seed=0)
    with pytest.raises(ValueError, match="read-only"):
        writing.step(np.zeros(1, np.float32))


@pytest.mark.parametrize("cls", TASKS)
@pytest.mark.parametrize("spread", [-0.1, 1.1, float("nan")])
def test_factors_are_not_negative(cls: type[MochiEnv], spread: float) -> None:
    with pytest.raises(ValueError, match=r"randomize_physics must lie between 0 and 1, .* got (-0.1|1.1|nan)\."):
        cls(randomize_physics=spread)


def test_a_field_that_was_not_listed_is_named() -> None:
    class ForgetfulEnv(CartPoleEnv):
        def _make_observation(self, sim: Any) -> Any:
            sim.parameter("body_mass")
            return super()._make_observation(sim)

    with pytest.raises(AttributeError, match=r"'body_mass'.*randomized_fields"):
        ForgetfulEnv().reset()


def test_a_field_that_cannot_differ_is_refused() -> None:
    class MeshEnv(CartPoleEnv):
        randomized_fields = ("mesh_vert",)

    with pytest.raises(ValueError, match="mesh_vert"):
        MeshEnv().reset()
