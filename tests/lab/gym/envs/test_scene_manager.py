"""Which environments share a scene, for how long, and that they share nothing else."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
import pytest

from superdex.lab.gym.envs import MochiEnv, SceneManager
from superdex.lab.gym.envs.benchmarks import AntEnv, CartPoleEnv, HalfCheetahEnv
from superdex.physics import Scene
from tests.lab.gym.envs.tasks import ArmEnv, PendulumEnv
from tests.physics.models import ROM

BENCHMARKS = (CartPoleEnv, HalfCheetahEnv, AntEnv)


@pytest.fixture(autouse=True)
def _nothing_left_from_others() -> Iterator[None]:
    gc.collect()
    yield
    gc.collect()


def manager_of(cls: type[MochiEnv]) -> SceneManager:
    return SceneManager.get_instance(cls.__name__)


class TestCounts:
    def test_the_first_builds_and_the_last_release_destroys(self) -> None:
        built = []

        class CountedEnv(PendulumEnv):
            def _build_model(self) -> mujoco.MjModel:
                built.append(self)
                return super()._build_model()

        manager = manager_of(CountedEnv)
        assert manager.scene_count == 0
        envs = [CountedEnv() for _ in range(3)]
        name = envs[0].scene.name
        assert len(built) == 1
        assert (manager.scene_count, manager.scene_info, name in manager) == (1, {name: 3}, True)
        envs[1].close()
        envs[0].close()
        assert manager.scene_info == {name: 1}
        envs[2].close()
        assert (manager.scene_count, manager.scene_info, name in manager) == (0, {}, False)
        built.clear()
        CountedEnv().close()
        assert len(built) == 1

    def test_closing_twice_releases_once(self) -> None:
        first, second = PendulumEnv(), PendulumEnv()
        first.close()
        first.close()
        assert manager_of(PendulumEnv).scene_info == {second.scene.name: 1}
        second.close()

    def test_closing_the_builder_leaves_its_siblings_working(self) -> None:
        builder, sibling = CartPoleEnv(), CartPoleEnv()
        builder.reset(seed=0)
        builder.step(np.ones(1))
        observation, _ = sibling.reset(seed=3)
        builder.close()
        gc.collect()
        alone = CartPoleEnv(use_shared_scenes=False)
        assert np.array_equal(observation, alone.reset(seed=3)[0])
        for _ in range(20):
            assert np.array_equal(sibling.step(np.ones(1))[0], alone.step(np.ones(1))[0])

    def test_an_environment_that_is_collected_without_close_releases(self) -> None:
        env = PendulumEnv()
        env.reset(seed=0)
        manager, scene = manager_of(PendulumEnv), weakref.ref(env.scene)
        assert manager.scene_count == 1
        del env
        gc.collect()
        assert manager.scene_count == 0
        gc.collect()
        assert scene() is None

    def test_the_last_close_destroys_the_scene(self) -> None:
        env = PendulumEnv()
        env.reset(seed=0)
        scene = weakref.ref(env.scene)
        env.close()
        del env
        gc.collect()
        assert scene() is None

    def test_a_builder_that_raises_leaves_nothing(self) -> None:
        class BrokenEnv(PendulumEnv):
            def _build_model(self) -> mujoco.MjModel:
                raise OSError("no such robot")

        for _ in range(2):
            with pytest.raises(OSError, match="no such robot"):
                BrokenEnv()
        assert manager_of(BrokenEnv).scene_count == 0

    def test_unshared_scenes_are_not_registered(self) -> None:
        envs = [PendulumEnv(use_shared_scenes=False) for _ in range(2)]
        assert manager_of(PendulumEnv).scene_count == 0
        assert envs[0].scene is not envs[1].scene
        assert not envs[0].shares_scene

    def test_a_closed_environment_says_so(self) -> None:
        env = PendulumEnv()
        env.reset(seed=0)
        env.close()
        for call in (env.reset, lambda: env.step(np.zeros(1))):
            with pytest.raises(RuntimeError, match="This PendulumEnv is closed: make a new one"):
                call()

    def test_rows_of_closed_environments_are_used_again(self) -> None:
        keeper = PendulumEnv()
        keeper.reset(seed=0)
        rows = set()
        for _ in range(5):
            env = PendulumEnv()
            env.reset(seed=0)
            rows.add(env.batch.physics.state.ctypes.data)
            env.close()
        assert len(rows) == 1
        keeper.close()


class TestClasses:
    def test_two_classes_never_share_a_scene_even_of_one_name(self) -> None:
        class FirstEnv(PendulumEnv):
            scene_name = "common"  # type: ignore[assignment]

        class SecondEnv(PendulumEnv):
            scene_name = "common"  # type: ignore[assignment]

        first, second = FirstEnv(), SecondEnv()
        assert first.scene.name == second.scene.name
        assert first.scene is not second.scene
        assert manager_of(FirstEnv) is not manager_of(SecondEnv)
        assert manager_of(FirstEnv).scene_info == manager_of(SecondEnv).scene_info == {first.scene.name: 1}

    def test_two_classes_of_one_class_name_do_not_share_either(self) -> None:
        classes = [type("TwinEnv", (PendulumEnv,), {"__module__": module}) for module in ("here", "there", "there")]
        envs = [cls() for cls in classes for _ in range(2)]
        manager = manager_of(classes[0])
        assert len({id(env.scene) for env in envs}) == 3
        name = envs[0].scene.name
        assert manager.scene_info == {name: 2, f"{name} of there": 2, f"{name} of there'": 2}
        for env in envs[:2]:
            env.close()
        late = classes[1]()
        assert late.scene is envs[2].scene, "the class's scene, though another name has become free"
        for env in (*envs[2:], late):
            env.close()
        assert manager.scene_count == 0

    def test_one_manager_per_class_name(self) -> None:
        assert SceneManager.get_instance("Some") is SceneManager.get_instance("Some")
        assert SceneManager.get_instance("Some") is not SceneManager.get_instance("Other")


class TestWarning:
    class OwnSceneEnv(PendulumEnv):
        def _create_scene(self) -> Scene:
            return Scene("mine", self._build_model())

    def test_a_scene_made_otherwise_is_warned_of_at_reset(self) -> None:
        env = self.OwnSceneEnv()
        with pytest.warns(RuntimeWarning, match=r"scene 'mine' was not created through _load_scene\(\)") as caught:
            env.reset(seed=0)
        assert caught[0].filename == __file__

    def test_no_warning_with_sharing_off_or_a_loaded_scene(self) -> None:
        self.OwnSceneEnv(use_shared_scenes=False).reset(seed=0)
        PendulumEnv(use_shared_scenes=False).reset(seed=0)
        PendulumEnv().reset(seed=0)


class TestRomActors:
    class SoftEnv(PendulumEnv):
        def _build_model(self) -> mujoco.MjModel:
            return mujoco.MjModel.from_xml_string(ROM)

        def _apply_action(self, sim: Any, action: Any) -> None:
            pass

        def _make_observation(self, sim: Any) -> Any:
            return {"pose": sim.qpos[:, :1], "vel": sim.qvel[:, :1]}, {}

    def test_sharing_a_scene_with_one_is_refused(self) -> None:
        with pytest.raises(RuntimeError) as error:
            self.SoftEnv()
        assert "State capture is not supported for scenes with ROM actors." in str(error.value)
        assert "use_shared_scenes=False" in str(error.value)
        assert manager_of(self.SoftEnv).scene_count == 0

    def test_it_runs_without_sharing(self) -> None:
        env = self.SoftEnv(use_shared_scenes=False)
        env.reset(seed=0)
        for _ in range(5):
            observation, *_ = env.step(np.zeros(1))
        assert np.isfinite(observation).all()


def other_value(cls: type[MochiEnv], field: dataclasses.Field) -> Any:
    default = getattr(cls.Cfg(), field.name)
    special = {
        "steps_per_episode": 7,
        "render_mode": None,
        "render_size": (64, 48),
        "render_quality": "nice",
        "render_camera": "track",
        "control_frequency": cls.Cfg().control_frequency / 5,
        "simulation_frequency": cls.Cfg().simulation_frequency * 3,
        "healthy_z_range": (0.1, 2.0),
    }
    if field.name in special:
        return special[field.name]
    return not default if isinstance(default, bool) else default + 1


def differences(first: mujoco.MjModel, second: mujoco.MjModel) -> set[str]:
    """Names of the model's fields and options in which two models differ."""
    different = set()
    for prefix, left, right in (("", first, second), ("opt.", first.opt, second.opt)):
        for name in dir(left):
            value = getattr(left, name)
            if name.startswith("_") or callable(value) or name in ("opt", "vis", "stat", "signature"):
                continue
            if not np.array_equal(value, getattr(right, name)):
                different.add(prefix + name)
    return different


def saved(model: mujoco.MjModel) -> bytes:
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return buffer.tobytes()


class TestSceneNames:
    @pytest.mark.parametrize(
        ("cls", "field"),
        [
            pytest.param(cls, f, id=f"{cls.__name__}-{f.name}")
            for cls in BENCHMARKS
            for f in dataclasses.fields(cls.Cfg)
        ],
    )
    def test_the_name_encodes_exactly_the_fields_that_change_the_model(
        self, cls: type[MochiEnv], field: dataclasses.Field
    ) -> None:
        base, varied = cls(), cls(**{field.name: other_value(cls, field)})
        changed = differences(base.scene.model, varied.scene.model)
        same_name = base.scene.name == varied.scene.name
        if field.name == "simulation_frequency":
            assert changed == {"opt.timestep"}
            assert not same_name
        elif field.name in cls.uid_fields:
            assert changed, f"{field.name} is in uid_fields, but changes nothing"
            assert changed <= {
                *("opt.gravity", "dof_damping", "jnt_stiffness", "pair_friction", "geom_friction", "has_damping"),
                *("dof_dampingpoly", "jnt_stiffnesspoly"),
            }
            assert not same_name
            assert f"{field.name}={getattr(varied.cfg, field.name)!r}" in varied.scene.name
        else:
            alone = cls({field.name: other_value(cls, field), "use_shared_scenes": False})
            assert differences(base.scene.model, alone.scene.model) == set()
            assert saved(base.scene.model) == saved(alone.scene.model)
            if field.name != "use_shared_scenes":
                assert varied.scene is base.scene

    @pytest.mark.parametrize("cls", BENCHMARKS)
    def test_uid_fields_are_fields(self, cls: type[MochiEnv]) -> None:
        assert set(cls.uid_fields) <= {field.name for field in dataclasses.fields(cls.Cfg)}

    def test_names_are_readable(self) -> None:
        assert CartPoleEnv().scene.name == "CartPole(use_damping=True, use_gravity=True, free_pole=True) at 50 Hz"
        half = PendulumEnv(control_frequency=0.5, simulation_frequency=12.5)
        assert half.scene.name == "Pendulum() at 12.5 Hz"

    def test_frequencies_that_differ_in_any_digit_do_not_share(self) -> None:
        first = PendulumEnv(control_frequency=10, simulation_frequency=100)
        second = PendulumEnv(control_frequency=10.000001, simulation_frequency=100.00001)
        assert first.scene is not second.scene
        assert second.scene.model.opt.timestep == 1 / 100.00001

    def test_equal_configurations_share_whatever_their_spelling(self) -> None:
        first = PendulumEnv(control_frequency=10, simulation_frequency=100)
        second = PendulumEnv(control_frequency=10.0, simulation_frequency=np.float64(100))
        assert first.cfg == second.cfg
        assert first.scene is second.scene


class TestIsolation:
    def test_two_configurations_on_one_scene_do_not_share_state(self) -> None:
        ours = [ArmEnv(gain=0.3), ArmEnv(gain=-0.5, control_frequency=50, reset_noise_scale=0.2)]
        assert ours[0].scene is ours[1].scene
        theirs = [ArmEnv(env.cfg, use_shared_scenes=False) for env in ours]
        for index in range(2):
            assert np.array_equal(ours[index].reset(seed=index)[0], theirs[index].reset(seed=index)[0])
        rng = np.random.default_rng(0)
        for _ in range(60):
            index = rng.integers(2)
            action = rng.uniform(-1, 1, 3)
            mine, other = ours[index].step(action), theirs[index].step(action)
            assert np.array_equal(mine[0], other[0])
            assert mine[1:4] == other[1:4]

    def test_what_one_configuration_tracks_another_is_still_refused(self) -> None:
        tracking = AntEnv()
        tracking.reset(seed=0)
        rows = [AntEnv(include_contact_in_observation=False) for _ in range(3)]
        for env in rows:
            env.reset(seed=0)
            with pytest.raises(AttributeError, match="not tracked"):
                env.batch.physics.field("cfrc_ext")
