"""The contract between a task's hooks, the base class and Gymnasium's interface."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Discrete

from superdex.lab.gym.envs import MochiEnv, Sim, StructuredArrays, Terminate, Truncate
from tests.lab.gym.envs.tasks import ArmEnv, BombEnv, PendulumEnv, SubstepArmEnv, make_batch

ZERO = np.zeros(1, np.float32)


def started(env: MochiEnv, seed: int = 0) -> MochiEnv:
    env.reset(seed=seed)
    return env


class TestHooks:
    def test_arrays_have_a_leading_axis_of_one_for_an_environment_alone(self) -> None:
        shapes: dict[str, Any] = {}

        class RecordingEnv(ArmEnv):
            def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
                super()._reset(sim, options)
                shapes["reset"] = (sim.num, sim.qpos.shape, dict(options))

            def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
                super()._apply_action(sim, action)
                shapes["action"] = {key: (value.shape, value.dtype) for key, value in action.items()}

            def _compute_reward_terms(self, action: Any, observation: Any, info: Any) -> StructuredArrays:
                shapes["observation"] = {key: value.shape for key, value in observation.items()}
                shapes["info"] = {key: value.shape for key, value in info.items()}
                return super()._compute_reward_terms(action, observation, info)

        env = RecordingEnv()
        env.reset(seed=0, options={"shoulder": 0.2})
        env.step(np.zeros(3))
        assert shapes["reset"] == (1, (1, 13), {"shoulder": 0.2})
        assert shapes["action"] == {"lift": ((1,), np.float32), "torque": ((1, 2), np.float32)}
        assert shapes["observation"]["past"] == (1, 2, 1)
        assert shapes["observation"]["pose"] == (1, 13)
        assert shapes["info"] == {"time": (1,), "upper": (1, 3), "low": (1,)}

    def test_a_missing_hook_is_named(self) -> None:
        class EmptyEnv(MochiEnv):
            pass

        with pytest.raises(NotImplementedError, match=r"EmptyEnv must define _build_model\(\)"):
            EmptyEnv()

        class ModelEnv(MochiEnv):
            _build_model = PendulumEnv._build_model

        env = ModelEnv()
        with pytest.raises(NotImplementedError, match=r"ModelEnv must define _observation_parts\(\)"):
            env.reset()
        with pytest.raises(NotImplementedError, match=r"ModelEnv must define _action_parts\(\)"):
            _ = env.action_space

    @pytest.mark.parametrize(
        ("returned", "message"),
        [
            (
                {"pose": np.zeros((1, 2)), "vel": np.zeros((1, 1))},
                r"Part 'pose' .* must have shape \(1, 1\), got \(1, 2\)",
            ),
            ({"pose": np.zeros(1), "vel": np.zeros((1, 1))}, r"Part 'pose' .* must have shape \(1, 1\), got \(1,\)"),
            ({"pose": np.zeros((1, 1))}, r"exactly the parts \['pose', 'vel'\]: missing \['vel'\]"),
            (
                {"pose": np.zeros((1, 1)), "vel": np.zeros((1, 1)), "acc": np.zeros((1, 1))},
                r"missing \[\], unknown \['acc'\]",
            ),
        ],
    )
    def test_a_wrong_observation_is_named(self, returned: StructuredArrays, message: str) -> None:
        class WrongEnv(PendulumEnv):
            def _make_observation(self, sim: Sim) -> Any:
                return returned, {}

        with pytest.raises(ValueError, match=message):
            WrongEnv().reset()

    @pytest.mark.parametrize("value", [3.0, np.zeros(2), np.zeros((2, 1))])
    def test_a_wrong_info_is_named(self, value: Any) -> None:
        class WrongEnv(PendulumEnv):
            def _make_observation(self, sim: Sim) -> Any:
                return super()._make_observation(sim)[0], {"height": value}

        with pytest.raises(ValueError, match="info 'height' must have a leading axis of 1 rows, got shape"):
            WrongEnv().reset()

    @pytest.mark.parametrize("value", [1.0, np.zeros((1, 1)), np.zeros(2)])
    def test_a_wrong_reward_term_is_named(self, value: Any) -> None:
        class WrongEnv(PendulumEnv):
            def _compute_reward_terms(self, action: Any, observation: Any, info: Any) -> StructuredArrays:
                return {"speed": value}

        with pytest.raises(ValueError, match=r"Reward term 'speed' must have shape \(1,\), one value per row, got"):
            started(WrongEnv()).step(ZERO)

    @pytest.mark.parametrize(
        "mask", [True, np.ones((1, 1), np.bool_), np.ones(2, np.bool_), np.ones(1, np.int64), np.ones(1), [1]]
    )
    def test_a_wrong_mask_is_named(self, mask: Any) -> None:
        class WrongEnv(PendulumEnv):
            def _check_stop_criteria(self, sim: Sim, observation: Any, info: Any) -> list[Terminate]:
                return [Terminate(mask, "Done")]

        with pytest.raises(ValueError, match=r"The mask of 'Done' must be booleans of shape \(1,\), one per row, got"):
            started(WrongEnv()).step(ZERO)

    def test_state_cannot_be_written_by_observing_hooks(self) -> None:
        class MeddlingEnv(PendulumEnv):
            def _make_observation(self, sim: Sim) -> Any:
                sim.qpos[:] = 0
                return super()._make_observation(sim)

        with pytest.raises(ValueError, match="read-only"):
            MeddlingEnv().reset()

    def test_derived_fields_cannot_be_read_by_reset(self) -> None:
        class EagerEnv(ArmEnv):
            def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
                sim.body("upper").xpos  # noqa: B018

        with pytest.raises(AttributeError, match="_reset cannot read 'xpos'"):
            EagerEnv().reset()

    def test_derived_fields_describe_the_state_after_reset(self) -> None:
        class TipEnv(PendulumEnv):
            derived_fields = ("xipos",)

            def _make_observation(self, sim: Sim) -> Any:
                return super()._make_observation(sim)[0], {"middle": sim.body("pole").xipos}

        env = TipEnv(reset_noise_scale=0.3)
        for seed in range(3):
            observation, info = env.reset(seed=seed)
            angle = env.to_structured_observation(observation)["pose"][0]
            assert info["middle"] == pytest.approx([-0.25 * np.sin(angle), 0, 1 - 0.25 * np.cos(angle)], abs=1e-6)
            env.step(ZERO)

    def test_a_part_that_is_no_box_is_refused(self) -> None:
        class DiscreteEnv(PendulumEnv):
            def _action_parts(self) -> Any:
                return {"gear": Discrete(3)}

        with pytest.raises(ValueError, match="Part 'gear' of the action space must be a Box"):
            _ = DiscreteEnv().action_space


class TestDeclaredState:
    def test_is_zero_after_each_reset_and_per_environment(self) -> None:
        first, second = ArmEnv(), ArmEnv()
        for env in (first, second):
            env.reset(seed=0)
        for _ in range(3):
            first.step(np.zeros(3))
        second.step(np.zeros(3))
        assert first.batch.task_state["count"].tolist() == [3]
        assert second.batch.task_state["count"].tolist() == [1]
        first.reset()
        assert first.batch.task_state["count"].tolist() == [0]
        assert second.batch.task_state["count"].tolist() == [1]

    def test_has_the_declared_shape_and_type(self) -> None:
        state = started(ArmEnv()).batch.task_state
        assert {name: (value.shape, value.dtype) for name, value in state.items()} == {
            "target": ((1, 3), np.float64),
            "previous": ((1,), np.float64),
            "count": ((1,), np.int64),
        }

    def test_is_zero_when_the_reset_hook_runs(self) -> None:
        seen = []

        class LookingEnv(ArmEnv):
            def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
                seen.append(sim.task["count"].copy())
                super()._reset(sim, options)

        env = started(LookingEnv())
        env.step(np.zeros(3))
        env.reset()
        assert np.array_equal(seen, [[0], [0]])


class TestRewardAndInfo:
    def test_the_reward_is_the_sum_of_the_terms_and_each_is_an_info(self) -> None:
        env = started(ArmEnv())
        for _ in range(5):
            _, reward, _, _, info = env.step(np.full(3, 0.7))
            assert reward == info["reward_near"] + info["reward_calm"]
            assert info["reward_calm"] == pytest.approx(-0.1 * 2 * 0.7**2)

    def test_types_are_those_of_a_gymnasium_environment(self) -> None:
        env = ArmEnv()
        observation, info = env.reset(seed=0)
        assert type(info["time"]) is np.float64
        assert type(info["low"]) is bool
        assert info["upper"].shape == (3,)
        assert observation.dtype == np.float64
        observation, reward, terminated, truncated, info = env.step(np.zeros(3))
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
        assert type(info["reward_near"]) is np.float64
        assert info["terminated_reason"] is None
        assert info["truncated_reason"] is None
        assert observation in env.observation_space

    def test_results_do_not_change_with_later_steps(self) -> None:
        env = ArmEnv()
        results = [env.reset(seed=0)]
        results += [env.step(np.ones(3)) for _ in range(3)]
        twin = ArmEnv()
        again = [twin.reset(seed=0)]
        for result in results[1:]:
            assert np.array_equal(results[0][0], again[0][0])
            again.append(twin.step(np.ones(3)))
            assert np.array_equal(result[0], again[-1][0])
            assert np.array_equal(result[-1]["upper"], again[-1][-1]["upper"])
        assert not any(np.shares_memory(a[0], b[0]) for i, a in enumerate(results) for b in results[:i])


class TestActions:
    def test_are_clipped_to_the_space(self) -> None:
        wild, tame = started(PendulumEnv()), started(PendulumEnv())
        for value in (5, -7.5, 1e30, 1e300, -1e300, np.float32(3), np.int64(4)):
            first = wild.step(np.array([value]))
            second = tame.step(np.array([np.clip(value, -1, 1)], np.float32))
            assert np.array_equal(first[0], second[0])
            assert first[1] == second[1]

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_that_are_not_finite_are_refused(self, value: float) -> None:
        self.check_refused(np.array([value]), f"An action must be finite, got .*{value}")

    @pytest.mark.parametrize("action", [np.zeros(2), np.zeros((1, 1)), np.zeros(()), 0.0, [], None, "x", [True]])
    def test_of_another_shape_or_type_are_refused(self, action: Any) -> None:
        self.check_refused(action, r"An action must be numbers of shape \(1,\), got shape .* and dtype")

    def check_refused(self, action: Any, message: str) -> None:
        env, twin = started(PendulumEnv()), started(PendulumEnv())
        with pytest.raises(ValueError, match=message):
            env.step(action)
        assert env.batch.episode_steps.tolist() == [0]
        assert np.array_equal(env.step(ZERO)[0], twin.step(ZERO)[0])

    def test_may_be_any_real_numbers(self) -> None:
        envs = [started(PendulumEnv()) for _ in range(5)]
        actions = [[1], np.array([1], np.int8), np.array([1], np.float16), np.array([1.0]), np.array([1], np.uint64)]
        observations = [env.step(action)[0] for env, action in zip(envs, actions, strict=True)]
        assert all(np.array_equal(observation, observations[0]) for observation in observations)

    def test_of_whole_numbers_stay_whole(self) -> None:
        seen = []

        class GearEnv(PendulumEnv):
            def _action_parts(self) -> Any:
                return {"gear": Box(0, 5, (1,), np.int64)}

            def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
                seen.append(action["gear"])

        env = started(GearEnv())
        env.step(env.action_space.sample())
        env.step(np.array([9]))
        assert seen[1].dtype == np.int64
        assert seen[1].tolist() == [[5]]

    def test_before_the_first_reset_are_refused(self) -> None:
        with pytest.raises(ResetNeeded, match=r"PendulumEnv must be reset before its first step: call reset\(\)"):
            PendulumEnv().step(ZERO)

    def test_are_held_over_the_control_step(self) -> None:
        calls = {True: 0, False: 0}
        for per_substep in calls:

            class CountingEnv(PendulumEnv):
                acts_per_substep = per_substep

                def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
                    calls[self.acts_per_substep] += 1
                    super()._apply_action(sim, action)

            started(CountingEnv()).step(ZERO)
        assert calls == {False: 1, True: 5}

    def test_acting_per_substep_sees_each_substep(self) -> None:
        env = started(SubstepArmEnv())
        model, data = env.scene.model, mujoco.MjData(env.scene.model)
        full = mujoco.mjtState.mjSTATE_INTEGRATION.value
        mujoco.mj_setState(model, data, env.batch.physics.state[0], full)
        mujoco.mj_forward(model, data)
        action = np.array([2, 0.5, -0.5], np.float32)  # lift, torque
        for _ in range(4):
            env.step(action)
            for _ in range(5):
                data.ctrl[:] = action[1:] + 0.3 * data.body("lower").xpos[2]
                data.xfrc_applied[model.body("puck").id, 2] = action[0] - data.geom("puck").xpos[2]
                mujoco.mj_step(model, data)
            assert np.array_equal(env.batch.physics.field("qpos")[0], data.qpos)


class TestOwnDerivedData:
    @pytest.mark.parametrize("cls", [ArmEnv, SubstepArmEnv])
    def test_environments_interleaved_on_one_scene_see_their_own(self, cls: type[ArmEnv]) -> None:
        shared, alone = [cls() for _ in range(3)], [cls(use_shared_scenes=False) for _ in range(3)]
        for index in range(3):
            shared[index].reset(seed=index)
            alone[index].reset(seed=index)
        rng = np.random.default_rng(0)
        for _ in range(80):
            index = int(rng.integers(3))
            if rng.random() < 0.1:
                assert np.array_equal(shared[index].reset()[0], alone[index].reset()[0])
                continue
            action = rng.uniform(-1, 1, 3)
            mine, other = shared[index].step(action), alone[index].step(action)
            assert np.array_equal(mine[0], other[0])
            assert mine[1] == other[1]


class StopEnv(PendulumEnv):
    """Stops by the action."""

    def _check_stop_criteria(self, sim: Sim, observation: Any, info: Any) -> Any:
        torque = sim.ctrl[:, 0]
        yield Terminate(torque > 0.1, "Above 0.1")
        yield Truncate(torque > 0.3, "Above 0.3")
        yield Terminate(torque > 0.2, "Above 0.2")
        yield Truncate(torque > 0.4, "Above 0.4")
        yield Terminate(torque < -0.5, "Low")


class TestStopping:
    @pytest.mark.parametrize(
        ("torque", "terminated", "truncated"),
        [
            (0.0, None, None),
            (0.15, "Above 0.1", None),
            (0.25, "Above 0.1", None),
            (0.35, "Above 0.1", "Above 0.3"),
            (0.45, "Above 0.1", "Above 0.3"),
            (-0.6, "Low", None),
        ],
    )
    def test_the_first_reason_of_each_kind_counts(
        self, torque: float, terminated: str | None, truncated: str | None
    ) -> None:
        *_, ended, cut, info = started(StopEnv()).step(np.array([torque]))
        assert (ended, cut) == (terminated is not None, truncated is not None)
        assert (info["terminated_reason"], info["truncated_reason"]) == (terminated, truncated)

    def test_the_episode_limit_truncates_at_its_step_and_anew_after_reset(self) -> None:
        env = PendulumEnv(steps_per_episode=3)
        for _ in range(2):
            env.reset(seed=0)
            results = [env.step(ZERO)[2:] for _ in range(3)]
            assert [(ended, cut) for ended, cut, _ in results] == [(False, False)] * 2 + [(False, True)]
            assert [info["truncated_reason"] for *_, info in results] == [None, None, "Steps per episode reached"]

    def test_the_tasks_own_reason_to_truncate_precedes_the_limit(self) -> None:
        *_, info = started(StopEnv(steps_per_episode=1)).step(np.array([0.35]))
        assert info["terminated_reason"] == "Above 0.1"
        assert info["truncated_reason"] == "Above 0.3"

    def test_termination_and_the_limit_can_coincide(self) -> None:
        *_, ended, cut, info = started(StopEnv(steps_per_episode=1)).step(np.array([-0.6]))
        assert (ended, cut) == (True, True)
        assert (info["terminated_reason"], info["truncated_reason"]) == ("Low", "Steps per episode reached")

    def test_minus_one_is_no_limit(self) -> None:
        env = started(PendulumEnv(steps_per_episode=-1))
        assert not any(env.step(ZERO)[3] for _ in range(1100))


class TestResetNoise:
    def samples(self, env: MochiEnv, count: int = 200) -> tuple[np.ndarray, np.ndarray]:
        env.reset(seed=0)
        states = []
        for _ in range(count):
            env.reset()
            states.append([env.batch.physics.field(name)[0].copy() for name in ("qpos", "qvel")])
        return np.array([state[0] for state in states]), np.array([state[1] for state in states])

    class NoisyEnv(ArmEnv):
        def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
            MochiEnv._reset(self, sim, options)

    def test_positions_are_uniform_within_the_scale_and_velocities_normal(self) -> None:
        scale = 0.2
        qpos, qvel = self.samples(self.NoisyEnv(reset_noise_scale=scale), 500)
        offset = qpos[:, :2]
        assert np.abs(offset).max() <= scale
        assert np.abs(offset).max() > 0.95 * scale
        assert offset.std() == pytest.approx(scale / np.sqrt(3), rel=0.1)
        assert abs(offset.mean()) < 0.02
        assert qvel.std() == pytest.approx(scale, rel=0.05)
        assert np.abs(qvel).max() > 2.5 * scale

    def test_positions_are_clipped_to_joint_limits(self) -> None:
        qpos, _ = self.samples(self.NoisyEnv(reset_noise_scale=3))
        limit = np.deg2rad(60)
        assert np.abs(qpos[:, 0]).max() == pytest.approx(limit)
        assert (np.abs(qpos[:, 0]) <= limit).all()
        assert np.abs(qpos[:, 1]).max() > limit

    def test_quaternions_are_unit(self) -> None:
        qpos, _ = self.samples(self.NoisyEnv(reset_noise_scale=0.5))
        for quaternion in (qpos[:, 5:9], qpos[:, 9:13]):
            assert np.linalg.norm(quaternion, axis=1) == pytest.approx(1, abs=1e-15)
            assert quaternion.std(axis=0).min() > 0.01

    def test_seeds_reproduce_and_differ(self) -> None:
        env, twin = ArmEnv(), ArmEnv()
        first = env.reset(seed=5)[0]
        later = env.reset()[0]
        assert np.array_equal(twin.reset(seed=5)[0], first)
        assert np.array_equal(twin.reset()[0], later)
        assert not np.array_equal(first, later)
        assert not np.array_equal(env.reset(seed=6)[0], first)
        assert np.array_equal(env.reset(seed=5)[0], first)

    def test_scale_zero_draws_nothing(self) -> None:
        env = PendulumEnv(reset_noise_scale=0)
        env.reset(seed=3)
        state = env.np_random.bit_generator.state
        env.reset()
        assert env.np_random.bit_generator.state == state
        assert np.array_equal(env.batch.physics.state[0], env.scene.initial_state)

    def test_noise_is_added_to_the_home_pose(self) -> None:
        class HomeEnv(PendulumEnv):
            def _build_model(self) -> mujoco.MjModel:
                spec = mujoco.MjSpec.from_string(super_xml)
                return spec.compile()

        from tests.lab.gym.envs.tasks import PENDULUM_XML

        super_xml = PENDULUM_XML.replace("</mujoco>", '<keyframe><key name="home" qpos="1.5"/></keyframe></mujoco>')
        qpos, _ = self.samples(HomeEnv(reset_noise_scale=0.1), 50)
        assert np.abs(qpos - 1.5).max() <= 0.1
        assert qpos.std() > 0.02

    def test_a_reset_forgets_the_episode_before(self) -> None:
        env, fresh = started(ArmEnv()), ArmEnv()
        for _ in range(7):
            env.step(np.ones(3))
        assert np.array_equal(env.reset(seed=9)[0], fresh.reset(seed=9)[0])
        for _ in range(7):
            assert np.array_equal(env.step(np.ones(3))[0], fresh.step(np.ones(3))[0])
        assert np.array_equal(env.batch.physics.state, fresh.batch.physics.state)


class TestDivergence:
    @pytest.fixture(autouse=True)
    def _in_tmp_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)  # MuJoCo logs its warnings there

    def test_ends_the_episode_with_a_finite_observation_and_no_reward(self) -> None:
        env = started(BombEnv(steps_per_episode=50))
        env.step(ZERO)
        observation, reward, terminated, truncated, info = env.step(np.ones(1))
        assert np.isfinite(observation).all()
        assert (reward, terminated, truncated) == (0.0, True, False)
        assert info["terminated_reason"] == "Simulation diverged"
        assert info["reward_still"] == 0
        assert observation in env.observation_space

    def test_shows_the_initial_state_and_zeroed_declared_state(self) -> None:
        env = started(BombEnv(reset_noise_scale=0.1))
        for _ in range(3):
            env.step(ZERO)
        observation = env.to_structured_observation(env.step(np.ones(1))[0])
        assert {key: value.tolist() for key, value in observation.items()} == {
            "integral": [0],
            "pose": [0],
            "vel": [0],
        }

    def test_the_next_episode_is_clean(self) -> None:
        env, fresh = started(BombEnv()), BombEnv()
        env.step(np.ones(1))
        assert np.array_equal(env.reset(seed=4)[0], fresh.reset(seed=4)[0])
        for _ in range(20):
            mine, other = env.step(np.full(1, 0.5)), fresh.step(np.full(1, 0.5))
            assert np.array_equal(mine[0], other[0])
            assert mine[1:4] == other[1:4]
        assert np.array_equal(env.batch.physics.state, fresh.batch.physics.state)

    def test_the_first_substep_of_many_is_enough(self) -> None:
        class EarlyEnv(BombEnv):
            def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
                first = sim.task["integral"] == 0
                sim.qvel[(action["torque"][:, 0] > 0.9) & first] = np.nan
                sim.task["integral"][:] += 1

        *_, info = started(EarlyEnv(control_frequency=10)).step(np.ones(1))
        assert info["terminated_reason"] == "Simulation diverged"

    def test_precedes_the_tasks_own_reasons(self) -> None:
        class StoppingBombEnv(BombEnv):
            def _check_stop_criteria(self, sim: Sim, observation: Any, info: Any) -> Any:
                yield Terminate(np.ones(sim.num, np.bool_), "Always")

        env = started(StoppingBombEnv())
        assert env.step(ZERO)[4]["terminated_reason"] == "Always"
        assert env.step(np.ones(1))[4]["terminated_reason"] == "Simulation diverged"


class TestSpaces:
    def test_are_flat_boxes_in_alphabetical_order(self) -> None:
        env = ArmEnv()
        assert env.action_space == Box(np.float32([0, -1, -1]), np.float32([5, 1, 1]))
        assert list(env.structured_observation_space) == ["imu", "past", "pose", "puck", "target", "tip", "vel"]
        assert env.observation_space.shape == (3 + 2 + 13 + 3 + 3 + 3 + 11,)
        assert isinstance(env, gymnasium.Env)

    def test_conversions_are_inverse_for_one_and_for_batches(self) -> None:
        env = ArmEnv()
        rng = np.random.default_rng(0)
        for lead in ((), (4,), (2, 3)):
            observation = rng.normal(size=(*lead, env.observation_space.shape[0]))
            assert np.array_equal(env.to_flat_observation(env.to_structured_observation(observation)), observation)
            action = rng.normal(size=(*lead, 3)).astype(np.float32)
            assert np.array_equal(env.to_flat_action(env.to_structured_action(action)), action)
        assert env.to_structured_action(np.array([1.0, 2, 3]))["lift"].shape == ()

    def test_each_environment_has_its_own(self) -> None:
        first, second = ArmEnv(), ArmEnv()
        first.action_space.seed(0)
        second.action_space.seed(0)
        assert np.array_equal(first.action_space.sample(), second.action_space.sample())
        assert first.action_space is not second.action_space


class TestConfiguration:
    def test_may_be_a_dict_a_configuration_or_keywords(self) -> None:
        for env in (
            ArmEnv({"gain": 0.7}),
            ArmEnv(ArmEnv.Cfg(gain=0.7)),
            ArmEnv(gain=0.7),
            ArmEnv({"gain": 1}, gain=0.7),
        ):
            assert env.cfg == ArmEnv.Cfg(gain=0.7)

    def test_an_unknown_render_mode_is_refused(self) -> None:
        with pytest.raises(
            ValueError, match=r"PendulumEnv has no render mode 'ascii'; it has \['human', 'rgb_array'\]"
        ):
            PendulumEnv(render_mode="ascii")

    def test_the_time_step_is_that_of_the_configuration(self) -> None:
        env = PendulumEnv(control_frequency=10, simulation_frequency=400)
        assert env.scene.model.opt.timestep == 1 / 400
        env.reset(seed=0)
        env.step(ZERO)
        assert env.batch.physics.step_count.tolist() == [40]
        assert env.batch.physics.field("time")[0] == pytest.approx(0.1)


def test_an_environment_that_joins_a_batch_gives_its_own_row_back() -> None:
    env = started(PendulumEnv())
    row = env.batch.physics.state.ctypes.data
    batch = make_batch([env])
    env.join(batch.batch, 0)
    other = started(PendulumEnv())
    assert other.batch.physics.state.ctypes.data == row
    with pytest.raises(ResetNeeded):
        env.step(ZERO)
