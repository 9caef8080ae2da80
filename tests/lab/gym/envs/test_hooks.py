"""What a task may declare beyond observation, action and reward, on a small task of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import mujoco
import numpy as np
import pytest
from gymnasium.spaces import Box

from superdex.lab.gym.envs import MochiEnv, Sim, TaskCfg
from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from tests.lab.gym.envs.tasks import BombEnv, PendulumEnv, make_batch
from tests.physics.models import PENDULUM

NUM = 4


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo logs its warnings there


@dataclass(frozen=True, kw_only=True)
class SkipCfg(TaskCfg):
    """The model decides the time step."""

    frame_skip: int = 3
    """Physics steps per control step."""

    @property
    def num_substeps(self) -> int:
        """Physics steps per control step."""
        return self.frame_skip


class SkipEnv(MochiEnv):
    Cfg = SkipCfg
    cfg: SkipCfg

    def _build_model(self) -> mujoco.MjModel:
        return mujoco.MjModel.from_xml_string(PENDULUM)

    def _action_parts(self) -> Mapping[str, Box]:
        return {"torque": Box(-1, 1, (1,))}

    def _observation_parts(self) -> Mapping[str, Box]:
        return {name: Box(-np.inf, np.inf, (1,), np.float64) for name in ("vel", "pose", "applied")}

    def _apply_action(self, sim: Sim, action: Any) -> None:
        sim.ctrl = action["torque"]

    def _make_observation(self, sim: Sim) -> Any:
        return {"pose": sim.qpos, "vel": sim.qvel, "applied": sim.ctrl}, {}

    def _compute_reward_terms(self, action: Any, observation: Any, info: Any) -> Any:
        return {"effort": -np.abs(action["torque"][:, 0])}


class TestRates:
    def test_the_model_may_decide_the_time_step(self) -> None:
        env = SkipEnv(frame_skip=7)
        assert env.scene.model.opt.timestep == 0.002
        assert env.dt == 0.002 * 7
        assert env.scene.name == "Skip()"
        env.reset(seed=0)
        start = env.scene.initial_state[0]
        env.step(np.zeros(1))
        assert env.batch.physics.field("time")[0] == pytest.approx(start + 0.014)
        assert env.batch.physics.step_count[0] == 7

    def test_chosen_rates_are_the_default(self) -> None:
        assert PendulumEnv(control_frequency=10, simulation_frequency=100).dt == 0.01 * 10

    def test_a_configuration_must_tell_how_many_physics_steps_there_are(self) -> None:
        class VagueEnv(SkipEnv):
            Cfg = TaskCfg

        with pytest.raises(NotImplementedError, match="TaskCfg must define num_substeps"):
            VagueEnv()


class TestActions:
    @pytest.mark.parametrize("clips", [True, False])
    def test_are_clipped_unless_the_task_says_otherwise(self, clips: bool) -> None:
        class Env(SkipEnv):
            clips_actions = clips

        env = Env()
        env.reset(seed=0)
        observation, reward, *_ = env.step(np.array([3.0]))
        applied = env.to_structured_observation(observation)["applied"]
        assert applied == -reward == (1 if clips else 3)

    def test_that_are_not_clipped_stay_the_callers(self) -> None:
        class Env(SkipEnv):
            clips_actions = False

        batch, action = make_batch([Env() for _ in range(NUM)]), np.full((NUM, 1), 3, np.float32)
        batch.reset(seeds=range(NUM))
        batch.step(None, action)
        assert (action == 3).all()


class TestOrderOfParts:
    def test_is_alphabetical(self) -> None:
        assert list(SkipEnv().observation_layout.parts) == ["applied", "pose", "vel"]

    def test_may_be_that_of_the_declaration(self) -> None:
        class Env(SkipEnv):
            alphabetical = False

        env = Env()
        assert list(env.observation_layout.parts) == ["vel", "pose", "applied"]
        assert list(env.structured_observation_space) == ["vel", "pose", "applied"]
        observation, _ = env.reset(seed=0)
        assert observation.tolist() == [-0.2, 0.3, 0.7]  # the keyframe's
        parts = env.to_structured_observation(observation)
        assert np.array_equal(env.to_flat_observation(dict(sorted(parts.items()))), observation)


class MovingEnv(SkipEnv):
    task_state: ClassVar = {"before": (1,), "calls": ()}

    def _apply_action(self, sim: Sim, action: Any) -> None:
        super()._apply_action(sim, action)
        sim.task["before"] = sim.qpos

    def _make_step_info(self, sim: Sim) -> Any:
        sim.task["calls"][:] += 1
        moved = sim.qpos[:, 0] - sim.task["before"][:, 0]
        return {"moved": moved, "calls": sim.task["calls"]}

    def _compute_reward_terms(self, action: Any, observation: Any, info: Any) -> Any:
        return {**super()._compute_reward_terms(action, observation, info), "moved": info["moved"]}


class TestStepInfo:
    def test_is_of_steps_only_and_for_rewards(self) -> None:
        env = MovingEnv()
        observation, info = env.reset(seed=0)
        assert "moved" not in info
        for number in range(1, 4):
            after, reward, _, _, info = env.step(np.ones(1))
            moved = env.to_structured_observation(after)["pose"] - env.to_structured_observation(observation)["pose"]
            assert info["moved"] == info["reward_moved"] == moved[0]
            assert reward == -1 + moved[0]
            assert info["calls"] == number
            observation = after

    def test_must_have_a_row_for_each_environment(self) -> None:
        class Env(SkipEnv):
            def _make_step_info(self, sim: Sim) -> Any:
                return {"height": np.zeros(3)}

        env = Env()
        env.reset(seed=0)
        with pytest.raises(ValueError, match="info 'height' must have a leading axis of 1 rows"):
            env.step(np.zeros(1))

    def test_state_declared_by_class_and_by_call_come_together(self) -> None:
        class Env(MovingEnv):
            def __init__(self) -> None:
                super().__init__()
                self._declare_state("more", (2,), np.int64)

        assert Env().declared_state == {
            "before": ((1,), np.float64),
            "calls": ((), np.float64),
            "more": ((2,), np.int64),
        }
        assert SkipEnv().declared_state == {}

    @pytest.mark.parametrize("shape", [1, [2], (2.5,), (-1,), "ab", None])
    def test_state_must_have_a_shape(self, shape: Any) -> None:
        class Env(SkipEnv):
            task_state: ClassVar = {"target": shape}

        with pytest.raises(TypeError, match=r"The shape of the state 'target' must be a tuple of sizes, .* got "):
            Env()

    def test_state_must_map_names(self) -> None:
        class Env(SkipEnv):
            task_state: ClassVar = ("target",)

        with pytest.raises(TypeError, match=r"task_state must map names to shapes, .* got \('target',\)"):
            Env()


class TestConstruction:
    @pytest.mark.parametrize("use", [lambda env: env.reset(), lambda env: env.cfg, lambda env: env.scene_name])
    def test_that_skips_the_base_class_is_told_so(self, use: Any) -> None:
        class Env(SkipEnv):
            def __init__(self) -> None:
                pass

        with pytest.raises(AttributeError, match=r"its __init__ must first call super\(\).__init__\(cfg"):
            use(Env())

    def test_leaves_other_missing_attributes_to_python(self) -> None:
        with pytest.raises(AttributeError, match="'SkipEnv' object has no attribute 'target'"):
            _ = SkipEnv().target  # type: ignore[attr-defined]

    def test_leaves_the_error_within_a_property(self) -> None:
        class Env(SkipEnv):
            @property
            def limit(self) -> float:
                return self.cfg.upper

        with pytest.raises(AttributeError, match="'SkipCfg' object has no attribute 'upper'"):
            _ = Env().limit


class TestTotalReward:
    def test_is_the_sum_in_order(self) -> None:
        class Env(SkipEnv):
            def _compute_reward_terms(self, action: Any, observation: Any, info: Any) -> Any:
                return {
                    name: np.full(len(action["torque"]), value) for name, value in (("a", 0.1), ("b", 0.2), ("c", 0.3))
                }

        env = Env()
        env.reset(seed=0)
        assert env.step(np.zeros(1))[1] == (0.1 + 0.2) + 0.3 != 0.1 + (0.2 + 0.3)

    def test_may_be_another(self) -> None:
        class Env(MovingEnv):
            def _total_reward(self, terms: Any) -> Any:
                return terms["moved"] * 3 + 10

        batch = make_batch([Env() for _ in range(NUM)])
        batch.reset(seeds=range(NUM))
        info = batch.step(None, np.ones((NUM, 1)))
        assert np.array_equal(batch.reward, info["moved"] * 3 + 10)

    def test_must_have_a_value_for_each_environment(self) -> None:
        class Env(SkipEnv):
            def _total_reward(self, terms: Any) -> Any:
                return 3.0

        env = Env()
        env.reset(seed=0)
        with pytest.raises(ValueError, match="The total reward must have a leading axis of 1 rows"):
            env.step(np.zeros(1))

    def test_of_a_step_that_diverges_is_zero_whatever_the_task_adds(self) -> None:
        class Env(BombEnv):
            def _total_reward(self, terms: Any) -> Any:
                return super()._total_reward(terms) + 5

        batch = make_batch([Env() for _ in range(3)])
        batch.reset(seeds=range(3))
        batch.step(None, np.array([[0.0], [1.0], [0.0]]))
        assert batch.reward[1] == 0
        assert (batch.reward[[0, 2]] != 0).all()


def test_uniform_numbers_are_those_of_each_generator() -> None:
    class Env(SkipEnv):
        def _reset(self, sim: Sim, options: Any) -> None:
            sim.qpos = sim.uniform(-0.3, 0.7, 1)
            sim.qvel = sim.uniform(2, 3, 1)

    batch = make_batch([Env() for _ in range(NUM)])
    batch.reset(seeds=range(NUM))
    batch.reset(np.array([1, 3]))
    for row in range(NUM):
        generator = np.random.default_rng(row)
        for _ in range(1 + row % 2):
            expected = [generator.uniform(-0.3, 0.7), generator.uniform(2, 3)]
        assert batch.observation[row, 1:].tolist() == expected


def one_step(env: MochiEnv) -> None:
    env.reset(seed=0)
    env.step(np.zeros(env.action_space.shape, np.float32))


class TestWhatHooksReturn:
    """Mistakes are named: the hook, what it must return, what it did."""

    @pytest.mark.parametrize(
        ("hook", "value", "message"),
        [
            ("_make_observation", {"position": 1}, r"_make_observation must return \(observation, info\).*got dict"),
            ("_make_observation", None, r"_make_observation must return \(observation, info\).*got NoneType"),
            ("_check_stop_criteria", [np.array([True])], r"list of Terminate\(mask, reason\).*got an item"),
        ],
    )
    def test_a_wrong_return_names_the_hook(self, hook: str, value: Any, message: str) -> None:
        cls = type("WrongEnv", (CartPoleEnv,), {hook: lambda self, *args: value})
        with pytest.raises(ValueError, match=message):
            one_step(cls())

    def test_a_misspelt_uid_field_names_the_nearest(self) -> None:
        cls = type("WrongEnv", (CartPoleEnv,), {"uid_fields": ("use_gravty",)})
        with pytest.raises(ValueError, match="no field 'use_gravty'. Did you mean 'use_gravity'"):
            cls()
