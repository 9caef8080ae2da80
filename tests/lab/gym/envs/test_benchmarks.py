"""The three benchmark tasks against the table that specifies them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
import pytest

from superdex.lab.gym.envs import MochiEnv
from superdex.lab.gym.envs.benchmarks import AntEnv, CartPoleEnv, HalfCheetahEnv
from superdex.lab.gym.envs.benchmarks.ant_env import rotation_vector
from superdex.physics import clear_file_cache, file_cache_stats
from tests.lab.gym.envs.tasks import make_batch

BENCHMARKS = (CartPoleEnv, HalfCheetahEnv, AntEnv)


def field(env: MochiEnv, name: str) -> np.ndarray:
    return env.batch.physics.field(name)[0]


def put(env: MochiEnv, **fields: Any) -> None:
    """Reset, and write state fields."""
    env.reset(seed=0)
    for name, value in fields.items():
        field(env, name)[:] = value


def forces_of(env: MochiEnv, control: np.ndarray) -> np.ndarray:
    """(nv,) generalised forces of the actuators after a step with that action, at the initial pose."""
    env.reset(seed=0)
    env.step(control)
    data = mujoco.MjData(env.scene.model)
    data.ctrl[:] = field(env, "ctrl")
    mujoco.mj_forward(env.scene.model, data)
    return data.qfrc_actuator


def rollout(env: MochiEnv, steps: int, seed: int = 0) -> Iterator[tuple[np.ndarray, tuple]]:
    """Random actions and what the environment returned for them; begins anew when an episode ends."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    for _ in range(steps):
        action = rng.uniform(env.action_space.low, env.action_space.high).astype(np.float32)
        result = env.step(action)
        yield action, result
        if result[2] or result[3]:
            env.reset()


class TestTable:
    @pytest.mark.parametrize(
        ("cls", "control", "simulation", "action", "bound", "parts"),
        [
            (
                CartPoleEnv,
                25,
                50,
                1,
                3,
                {"angular_vel": (1,), "linear_vel": (1,), "position": (1,), "vertical_ang": (1,)},
            ),
            (HalfCheetahEnv, 20, 100, 6, 1, {"pose": (8,), "vel": (9,)}),
            (AntEnv, 20, 100, 8, 1, {"contact_forces": (54,), "pose": (13,), "vel": (14,)}),
        ],
    )
    def test_frequencies_and_spaces(
        self, cls: type[MochiEnv], control: int, simulation: int, action: int, bound: int, parts: dict[str, tuple]
    ) -> None:
        env = cls()
        assert (env.cfg.control_frequency, env.cfg.simulation_frequency) == (control, simulation)
        assert env.scene.model.opt.timestep == 1 / simulation
        assert {key: part.shape for key, part in env.structured_observation_space.items()} == parts
        assert {key: part.shape for key, part in env.structured_action_space.items()} == {"control": (action,)}
        assert (env.action_space.low == -bound).all()
        assert (env.action_space.high == bound).all()
        assert env.action_space.dtype == env.observation_space.dtype == np.float32
        assert env.cfg.steps_per_episode == 1000
        assert env.cfg.use_shared_scenes

    @pytest.mark.parametrize(
        ("cls", "fields", "size"),
        [
            (CartPoleEnv, {}, 4),
            (HalfCheetahEnv, {}, 17),
            (HalfCheetahEnv, {"exclude_current_position_from_observation": False}, 18),
            (AntEnv, {}, 81),
            (AntEnv, {"include_contact_in_observation": False}, 27),
            (AntEnv, {"exclude_current_positions_from_observation": False}, 83),
            (AntEnv, {"use_rotation_vector": True}, 80),
        ],
    )
    def test_observation_sizes(self, cls: type[MochiEnv], fields: dict[str, bool], size: int) -> None:
        env = cls(fields)
        assert env.observation_space.shape == (size,)
        observation, _ = env.reset(seed=0)
        assert observation.shape == (size,)
        assert observation in env.observation_space
        assert env.step(env.action_space.high)[0] in env.observation_space

    def test_uid_fields(self) -> None:
        assert CartPoleEnv.uid_fields == ("use_damping", "use_gravity", "free_pole")
        assert HalfCheetahEnv.uid_fields == ("use_gravity", "use_rest_springs")
        assert AntEnv.uid_fields == ("use_damping", "use_gravity", "use_low_friction", "use_high_friction")

    @pytest.mark.parametrize("cls", BENCHMARKS)
    def test_truncated_after_1000_steps(self, cls: type[MochiEnv]) -> None:
        env = AntEnv(terminate_when_unhealthy=False) if cls is AntEnv else cls()
        env.reset(seed=0)
        field(env, "qpos")[:] = env.scene.initial_state[1 : 1 + env.scene.model.nq]
        field(env, "qvel")[:] = 0
        still = np.zeros(env.action_space.shape)
        for step in range(1, 1001):
            _, _, terminated, truncated, info = env.step(still)
            assert truncated == (step == 1000)
            if cls is not CartPoleEnv:
                assert not terminated
        assert info["truncated_reason"] == "Steps per episode reached"

    @pytest.mark.parametrize("cls", BENCHMARKS)
    def test_a_file_is_read_once_however_many_environments(self, cls: type[MochiEnv]) -> None:
        clear_file_cache()
        envs = [cls(use_shared_scenes=False) for _ in range(3)]
        assert (file_cache_stats().misses, file_cache_stats().hits) == (1, 2)
        shared = [cls(simulation_frequency=envs[0].cfg.control_frequency * 7) for _ in range(3)]
        assert shared[0].scene is shared[2].scene
        assert (file_cache_stats().misses, file_cache_stats().hits) == (1, 3)

    @pytest.mark.parametrize("cls", BENCHMARKS)
    def test_the_module_documents_what_it_gives(self, cls: type[MochiEnv]) -> None:
        text = inspect.getmodule(cls).__doc__ or ""
        env = cls()
        env.reset(seed=0)
        terms = [name.removeprefix("reward_") for name in env.step(env.action_space.sample())[4] if "reward_" in name]
        for word in (*env.observation_layout.parts, *env.action_layout.parts, *terms, "Steps per episode reached"):
            assert f"`{word}`" in text or f'"{word}"' in text, word

    @pytest.mark.parametrize("cls", BENCHMARKS)
    @pytest.mark.parametrize("use_gravity", [True, False])
    def test_gravity_acts_if_it_is_on(self, cls: type[MochiEnv], use_gravity: bool) -> None:
        model = cls(use_gravity=use_gravity).scene.model
        assert model.opt.gravity.tolist() == [0, 0, -9.81 if use_gravity else 0]

    @pytest.mark.parametrize("cls", BENCHMARKS)
    def test_random_steps_stay_finite(self, cls: type[MochiEnv]) -> None:
        batch = make_batch([cls() for _ in range(20)], 2)
        batch.reset(None, list(range(20)))
        rng = np.random.default_rng(0)
        low, high = batch.batch.task.action_space.low, batch.batch.task.action_space.high
        for _ in range(300):
            extreme = np.where(rng.random((20, *low.shape)) < 0.5, low, high)
            infos = batch.step(None, extreme.astype(np.float32))
            reasons = infos["terminated_reason"]
            assert "Simulation diverged" not in {reasons.table[code] for code in reasons.codes}
            assert np.isfinite(batch.observation).all()
            assert np.abs(batch.batch.physics.field("qvel")).max() < 1e3
            over = np.flatnonzero(batch.terminated)
            if over.size:
                batch.reset(over)


class TestCartPole:
    def test_observation_is_the_state_in_alphabetical_order(self) -> None:
        env = CartPoleEnv()
        for _, (observation, *_) in rollout(env, 60):
            (position, angle), (linear, angular) = field(env, "qpos"), field(env, "qvel")
            assert np.array_equal(observation, np.float32([angular, linear, position, angle]))

    def test_reward_and_end_follow_the_angle(self) -> None:
        env, ends = CartPoleEnv(), 0
        for _, (_, reward, terminated, truncated, info) in rollout(env, 400):
            fallen = abs(field(env, "qpos")[1]) > 0.2
            assert terminated == fallen
            assert not truncated
            assert reward == info["reward_upright_reward"] == (0 if fallen else 1)
            assert info["terminated_reason"] == ("Pole angle exceeded threshold" if fallen else None)
            ends += terminated
        assert ends > 5

    @pytest.mark.parametrize(("actuate_on_pole", "expected"), [(False, [100, 0]), (True, [0, 100])])
    def test_the_action_is_100_newton_on_the_cart_or_newton_metre_on_the_hinge(
        self, actuate_on_pole: bool, expected: list[float]
    ) -> None:
        env = CartPoleEnv(actuate_on_pole=actuate_on_pole)
        for scale in (1, -2.5, 3):
            assert forces_of(env, np.array([scale])) == pytest.approx(np.multiply(expected, scale))
        assert forces_of(env, np.array([50])) == pytest.approx(np.multiply(expected, 3))

    def test_positive_angles_lean_towards_positive_x(self) -> None:
        env = CartPoleEnv()
        data = mujoco.MjData(env.scene.model)
        data.qpos[1] = 0.1
        mujoco.mj_forward(env.scene.model, data)
        assert data.body("pole").xipos[0] > 0

    def test_the_episode_of_a_random_policy_lasts_10_to_40_steps(self) -> None:
        for fields in ({}, {"actuate_on_pole": True}):
            ends = sum(result[2] for _, result in rollout(CartPoleEnv(fields), 4000))
            assert 10 < 4000 / ends < 40, fields

    def test_damping_is_off_if_it_is_off(self) -> None:
        assert (CartPoleEnv().scene.model.dof_damping > 0).all()
        assert (CartPoleEnv(use_damping=False).scene.model.dof_damping == 0).all()

    def test_a_held_pole_returns_to_upright_and_a_free_one_falls(self) -> None:
        for free_pole in (False, True):
            env = CartPoleEnv(free_pole=free_pole)
            put(env, qpos=[0, 0.15], qvel=0)
            for _ in range(100):
                env.step(np.zeros(1))
            assert (abs(field(env, "qpos")[1]) > 0.2) == free_pole
            assert free_pole or abs(field(env, "qpos")[1]) < 0.05

    def test_a_linear_feedback_balances_the_pole(self) -> None:
        env = CartPoleEnv()
        observation, _ = env.reset(seed=0)
        total = 0.0
        for _ in range(300):
            parts = env.to_structured_observation(observation)
            observation, reward, terminated, *_ = env.step(
                np.clip(20 * parts["vertical_ang"] + 6 * parts["angular_vel"] + 0.5 * parts["linear_vel"], -3, 3)
            )
            total += reward
            assert not terminated
        assert total == 300


class TestHalfCheetah:
    @pytest.mark.parametrize("exclude", [True, False])
    def test_observation_is_the_state(self, exclude: bool) -> None:
        env = HalfCheetahEnv(exclude_current_position_from_observation=exclude)
        for _, (observation, *_) in rollout(env, 20):
            expected = np.concatenate([field(env, "qpos")[1 if exclude else 0 :], field(env, "qvel")])
            assert np.array_equal(observation, expected.astype(np.float32))

    def test_reward_is_forward_velocity_less_control_cost(self) -> None:
        env = HalfCheetahEnv(forward_reward_weight=2, ctrl_cost_weight=0.3)
        for action, (_, reward, terminated, _, info) in rollout(env, 50):
            assert info["reward_forward"] == 2 * field(env, "qvel")[0]
            assert info["reward_ctrl"] == pytest.approx(-0.3 * float(np.dot(action, action)), rel=1e-6)
            assert reward == info["reward_forward"] + info["reward_ctrl"]
            assert not terminated

    def test_default_weights(self) -> None:
        assert (HalfCheetahEnv().cfg.forward_reward_weight, HalfCheetahEnv().cfg.ctrl_cost_weight) == (1.0, 0.1)

    def test_it_never_terminates_even_upside_down(self) -> None:
        env = HalfCheetahEnv()
        put(env, qpos=[0, 2, np.pi, *[0] * 6])
        assert not any(env.step(np.ones(6))[2] for _ in range(50))

    def test_the_action_is_a_torque_of_the_stated_size(self) -> None:
        env = HalfCheetahEnv()
        expected = np.array([120, 90, 60, 120, 60, 30])
        assert forces_of(env, np.ones(6)) == pytest.approx([0, 0, 0, *expected])
        assert forces_of(env, np.full(6, -0.5)) == pytest.approx([0, 0, 0, *(-0.5 * expected)])

    def test_rest_springs_pull_only_if_they_are_on(self) -> None:
        assert (HalfCheetahEnv().scene.model.jnt_stiffness[3:] > 0).all()
        assert (HalfCheetahEnv(use_rest_springs=False).scene.model.jnt_stiffness == 0).all()


class TestAnt:
    def test_observation_is_contacts_pose_and_velocity(self) -> None:
        env = AntEnv()
        touched = 0
        for _, (observation, *_) in rollout(env, 100):
            parts = env.to_structured_observation(observation)
            assert np.array_equal(parts["pose"], field(env, "qpos")[2:].astype(np.float32))
            assert np.array_equal(parts["vel"], field(env, "qvel").astype(np.float32))
            wrenches = np.clip(field(env, "cfrc_ext")[1:].ravel(), -1, 1)
            assert np.array_equal(parts["contact_forces"], wrenches.astype(np.float32))
            touched += wrenches.any()
        assert touched > 10

    def test_contact_wrenches_are_those_of_the_last_substep(self) -> None:
        env = AntEnv()
        env.reset(seed=0)
        model, data = env.scene.model, mujoco.MjData(env.scene.model)
        full = mujoco.mjtState.mjSTATE_INTEGRATION.value
        rng = np.random.default_rng(0)
        for _ in range(40):
            action = rng.uniform(-1, 1, 8).astype(np.float32)
            mujoco.mj_setState(model, data, env.batch.physics.state[0], full)
            observation = env.step(action)[0]
            data.ctrl[:] = action
            mujoco.mj_step(model, data, 5)
            expected = np.clip(data.cfrc_ext[1:].ravel(), -1, 1).astype(np.float32)
            assert np.array_equal(env.to_structured_observation(observation)["contact_forces"], expected)

    def test_full_observation_begins_with_the_position(self) -> None:
        env = AntEnv(exclude_current_positions_from_observation=False, include_contact_in_observation=False)
        for _, (observation, *_) in rollout(env, 10):
            expected = np.concatenate([field(env, "qpos"), field(env, "qvel")])
            assert np.array_equal(observation, expected.astype(np.float32))

    def test_reward_terms(self) -> None:
        env = AntEnv()
        for action, (_, reward, _, _, info) in rollout(env, 100):
            healthy = 0.2 <= field(env, "qpos")[2] <= 1.0
            wrenches = np.clip(field(env, "cfrc_ext")[1:], -1, 1)
            assert info["reward_forward"] == field(env, "qvel")[0]
            assert info["reward_ctrl"] == pytest.approx(-0.5 * float(np.dot(action, action)), rel=1e-6)
            assert info["reward_contact"] == pytest.approx(-5e-4 * (wrenches**2).sum(), rel=1e-12)
            assert info["reward_survive"] == healthy
            assert info["healthy"] is bool(healthy)
            terms = [info[f"reward_{name}"] for name in ("forward", "ctrl", "contact", "survive")]
            assert reward == pytest.approx(sum(terms), rel=1e-12)

    def test_weights_scale_their_terms(self) -> None:
        plain = AntEnv()
        scaled = AntEnv(forward_reward_weight=2, ctrl_cost_weight=1.5, contact_cost_weight=1e-3, healthy_reward=3)
        ratios = {"forward": 2, "ctrl": 3, "contact": 2, "survive": 3}
        for (_, first), (_, second) in zip(rollout(plain, 30), rollout(scaled, 30), strict=True):
            for name, ratio in ratios.items():
                assert second[4][f"reward_{name}"] == pytest.approx(ratio * first[4][f"reward_{name}"])

    def test_without_contacts_there_is_neither_observation_nor_cost(self) -> None:
        env = AntEnv(include_contact_in_observation=False)
        for _, (observation, *_, info) in rollout(env, 3):
            assert observation.shape == (27,)
            assert "reward_contact" not in info
        assert list(env.structured_observation_space) == ["pose", "vel"]

    @pytest.mark.parametrize(
        ("height", "fields", "healthy"),
        [
            (0.9, {}, True),
            (3.0, {}, False),
            (0.9, {"healthy_z_range": (0.95, 2)}, False),
            (3.0, {"healthy_z_range": (2, 4)}, True),
        ],
    )
    @pytest.mark.parametrize("terminates", [True, False])
    def test_it_terminates_outside_the_healthy_heights(
        self, height: float, fields: dict[str, Any], healthy: bool, terminates: bool
    ) -> None:
        env = AntEnv(fields, terminate_when_unhealthy=terminates, use_gravity=False)
        put(env, qpos=[0, 0, height, 1, 0, 0, 0, *[0] * 8], qvel=0)
        _, _, terminated, _, info = env.step(np.zeros(8))
        assert field(env, "qpos")[2] == pytest.approx(height)
        assert info["healthy"] is healthy
        assert terminated == (terminates and not healthy)
        assert info["terminated_reason"] == ("Unhealthy" if terminated else None)
        assert info["reward_survive"] == healthy

    def test_random_episodes_end_only_when_unhealthy(self) -> None:
        env = AntEnv(healthy_z_range=(0.5, 0.8))
        ends = 0
        for _, (_, _, terminated, _, info) in rollout(env, 200):
            assert terminated == (not 0.5 <= field(env, "qpos")[2] <= 0.8)
            assert info["terminated_reason"] == ("Unhealthy" if terminated else None)
            ends += terminated
        assert ends > 3

    def test_the_action_is_150_newton_metre(self) -> None:
        env = AntEnv()
        assert sorted(forces_of(env, np.ones(8))) == pytest.approx([0] * 6 + [150] * 8)
        order = [forces_of(env, row)[6:].argmax() for row in np.eye(8)]
        assert order == list(range(8))

    def test_friction_decides_how_far_it_slides(self) -> None:
        distances = []
        for fields in ({"use_low_friction": True}, {}, {"use_high_friction": True}):
            env = AntEnv(fields, terminate_when_unhealthy=False)
            env.reset(seed=0)
            for step in range(40):
                env.step(np.zeros(8))
                if step == 20:
                    field(env, "qvel")[0] = 5
            distances.append(field(env, "qpos")[0])
        assert distances[0] > distances[1] > distances[2]

    def test_damping_is_off_if_it_is_off(self) -> None:
        assert (AntEnv().scene.model.dof_damping[6:] > 0).all()
        assert (AntEnv(use_damping=False).scene.model.dof_damping == 0).all()

    def test_default_healthy_range(self) -> None:
        assert AntEnv().cfg.healthy_z_range == (0.2, 1.0)


class TestRotationVector:
    def reference(self, quaternion: np.ndarray) -> np.ndarray:
        result = np.zeros(3)
        mujoco.mju_quat2Vel(result, quaternion, 1.0)
        return result

    def test_equals_mujocos(self) -> None:
        quaternions = np.random.default_rng(0).normal(size=(500, 4))
        quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
        vectors = rotation_vector(quaternions)
        assert np.allclose(vectors, [self.reference(q) for q in quaternions], atol=1e-12)
        assert np.linalg.norm(vectors, axis=1).max() <= np.pi

    def test_is_the_same_for_a_quaternion_and_its_negative(self) -> None:
        quaternions = np.random.default_rng(1).normal(size=(100, 4))
        assert np.array_equal(rotation_vector(quaternions), rotation_vector(-quaternions))

    @pytest.mark.parametrize("angle", [0, 1e-300, 1e-12, 1e-8, 1e-7, 1e-4, 1, 3, np.pi - 1e-9, np.pi])
    def test_inverts_the_quaternion_of_an_angle(self, angle: float) -> None:
        axis = np.array([0.6, 0, -0.8])
        quaternion = np.array([[np.cos(angle / 2), *(np.sin(angle / 2) * axis)]])
        assert rotation_vector(quaternion)[0] == pytest.approx(angle * axis, rel=1e-9, abs=0)

    def test_rows_do_not_depend_on_their_company(self) -> None:
        quaternions = np.random.default_rng(2).normal(size=(9, 4))
        quaternions[3] = [1, 0, 0, 0]
        together = rotation_vector(quaternions)
        for index in range(9):
            assert np.array_equal(rotation_vector(quaternions[index : index + 1])[0], together[index])

    def test_is_what_the_ant_observes(self) -> None:
        env, twin = AntEnv(use_rotation_vector=True), AntEnv()
        for (_, first), (_, second) in zip(rollout(env, 30), rollout(twin, 30), strict=True):
            vector = env.to_structured_observation(first[0])["pose"][1:4]
            assert np.allclose(vector, self.reference(field(twin, "qpos")[3:7]), atol=1e-6)
            assert first[1] == second[1]
