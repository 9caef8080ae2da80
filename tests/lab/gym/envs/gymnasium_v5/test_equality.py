"""Our tasks against Gymnasium's own classes in one process: every result is equal, with `==`."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest

import superdex.lab.gym  # noqa: F401
from superdex.lab.gym.utils.vector import SceneVectorEnv
from tests.lab.gym.envs.gymnasium_v5.originals import (
    NAMES,
    assert_has,
    assert_same_rollout,
    original,
    original_class,
    our_class,
)

LIMIT = 150
INF = float("inf")

SWEEP: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES),
    ("HalfCheetah", {"exclude_current_positions_from_observation": False}),
    (
        "HalfCheetah",
        {"frame_skip": 3, "forward_reward_weight": 1.3, "ctrl_cost_weight": 0.37, "reset_noise_scale": 0.3},
    ),
    ("HalfCheetah", {"xml_file": "walker2d.xml", "reset_noise_scale": 0.0}),
    ("Hopper", {"exclude_current_positions_from_observation": False, "terminate_when_unhealthy": False}),
    ("Hopper", {"healthy_state_range": (-3.0, 2.5), "healthy_z_range": (0.9, 1.3), "healthy_reward": 0.3}),
    ("Hopper", {"healthy_angle_range": (-0.05, 0.1), "frame_skip": 7, "reset_noise_scale": 0.05}),
    ("Hopper", {"forward_reward_weight": 0.7, "ctrl_cost_weight": 0.11}),
    ("Walker2d", {"exclude_current_positions_from_observation": False, "terminate_when_unhealthy": False}),
    ("Walker2d", {"healthy_z_range": (1.0, INF), "healthy_angle_range": (-0.3, 0.2), "healthy_reward": 0.1}),
    ("Walker2d", {"xml_file": "walker2d.xml", "forward_reward_weight": 3.0, "ctrl_cost_weight": 0.1, "frame_skip": 2}),
    ("Walker2d", {"reset_noise_scale": 0.1}),
    ("Swimmer", {"exclude_current_positions_from_observation": False, "reset_noise_scale": 0.7}),
    ("Swimmer", {"frame_skip": 1, "forward_reward_weight": 2.2, "ctrl_cost_weight": 0.3}),
    ("Reacher", {"frame_skip": 5, "reward_dist_weight": 0.3, "reward_control_weight": 0.17}),
    ("Pusher", {"frame_skip": 3}),
    ("Pusher", {"reward_near_weight": 0.7, "reward_dist_weight": 0.3, "reward_control_weight": 0.17}),
    ("InvertedPendulum", {"frame_skip": 1, "reset_noise_scale": 0.1}),
    ("InvertedDoublePendulum", {"healthy_reward": 3.3, "frame_skip": 2}),
    ("InvertedDoublePendulum", {"reset_noise_scale": 0.4}),
    ("Ant", {"exclude_current_positions_from_observation": False, "include_cfrc_ext_in_observation": False}),
    ("Ant", {"terminate_when_unhealthy": False, "contact_force_range": (-30.0, 20.0), "main_body": "torso"}),
    ("Ant", {"main_body": 4, "healthy_z_range": (0.5, 0.8), "healthy_reward": 0.77, "frame_skip": 2}),
    ("Ant", {"forward_reward_weight": 0.3, "ctrl_cost_weight": 0.21, "contact_cost_weight": 0.3}),
    ("Ant", {"reset_noise_scale": 0.5}),
    ("Humanoid", {"exclude_current_positions_from_observation": False, "terminate_when_unhealthy": False}),
    ("Humanoid", {"include_cinert_in_observation": False, "include_qfrc_actuator_in_observation": False}),
    ("Humanoid", {"include_cvel_in_observation": False, "include_cfrc_ext_in_observation": False}),
    ("Humanoid", {"contact_cost_weight": 1e-3, "contact_cost_range": (0.2, 3.0), "ctrl_cost_weight": 0.3}),
    ("Humanoid", {"forward_reward_weight": 2.0, "healthy_reward": 0.1, "healthy_z_range": (1.2, 1.5)}),
    ("Humanoid", {"frame_skip": 2, "reset_noise_scale": 0.1}),
    ("Humanoid", {"xml_file": "ant.xml", "healthy_z_range": (0.2, 1.0)}),  # no tendons, contacts off and on
    ("HumanoidStandup", {"exclude_current_positions_from_observation": False, "uph_cost_weight": 3.0}),
    ("HumanoidStandup", {"include_cinert_in_observation": False, "include_cvel_in_observation": False}),
    ("HumanoidStandup", {"include_qfrc_actuator_in_observation": False, "include_cfrc_ext_in_observation": False}),
    ("HumanoidStandup", {"impact_cost_weight": 1e-3, "impact_cost_range": (0.5, 2.0), "ctrl_cost_weight": 0.7}),
    ("HumanoidStandup", {"frame_skip": 2, "reset_noise_scale": 0.3}),
]


@pytest.mark.parametrize(("name", "keywords"), SWEEP, ids=[f"{n}-{'-'.join(k) or 'default'}" for n, k in SWEEP])
def test_every_result_is_equal(name: str, keywords: dict[str, Any]) -> None:
    ours = our_class(name)({**keywords, "steps_per_episode": LIMIT})
    ended = assert_same_rollout(ours, original(name, LIMIT, **keywords))
    assert ended >= 500 // LIMIT


@pytest.mark.parametrize("name", NAMES)
def test_actions_beyond_their_space_cost_what_they_cost_there(name: str) -> None:
    ours = our_class(name)(steps_per_episode=LIMIT)
    assert_same_rollout(ours, original(name, LIMIT), num_steps=60, reach=2.5)


@pytest.mark.parametrize("name", NAMES)
def test_every_keyword_is_a_field_of_the_same_default(name: str) -> None:
    keywords = dict(inspect.signature(original_class(name)).parameters)
    cfg = our_class(name).Cfg
    for keyword in ("kwargs", "default_camera_config"):  # about rendering
        keywords.pop(keyword)
    fields = {field.name: field.default for field in dataclasses.fields(cfg)}
    assert {keyword: fields[keyword] for keyword in keywords} == {k: p.default for k, p in keywords.items()}


@pytest.mark.parametrize("name", NAMES)
def test_an_episode_is_as_long(name: str) -> None:
    assert our_class(name).Cfg().steps_per_episode == gymnasium.spec(f"{name}-v5").max_episode_steps


@pytest.mark.parametrize("name", NAMES)
def test_the_model_is_the_same_but_for_what_computes_wrenches(name: str) -> None:
    ours, theirs = our_class(name)(), original(name, 1).unwrapped
    model, wanted = ours.scene.model, theirs.model  # type: ignore[attr-defined]
    assert ours.dt == theirs.dt  # type: ignore[attr-defined]
    for field in dir(wanted):
        value = getattr(wanted, field)
        if isinstance(value, np.ndarray) and not field.startswith(("_", "name", "key", "plugin")) and field != "names":
            assert np.array_equal(getattr(model, field), value), field
    assert model.nplugin == ("cfrc_ext" in ours.derived_fields)
    assert model.nsensor == wanted.nsensor


@pytest.mark.parametrize("name", NAMES)
def test_forward_leaves_the_state_alone(name: str) -> None:
    """Gymnasium calls it at a reset; ours need not, where no derived field is read."""
    model = our_class(name)().scene.model
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    states = np.empty((2, mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION)))
    for _ in range(20):
        mujoco.mj_resetData(model, data)
        data.qpos[:] += rng.uniform(-0.3, 0.3, model.nq)
        data.qvel[:] = rng.normal(size=model.nv)
        mujoco.mj_getState(model, data, states[0], mujoco.mjtState.mjSTATE_INTEGRATION)
        mujoco.mj_forward(model, data)
        mujoco.mj_getState(model, data, states[1], mujoco.mjtState.mjSTATE_INTEGRATION)
        assert np.array_equal(*states)


QUADRUPED = """
<mujoco>
  <option timestep="0.004" integrator="implicitfast"/>
  <worldbody>
    <geom type="plane" size="9 9 0.1"/>
    <body name="trunk" pos="0 0 0.4">
      <freejoint/><geom type="box" size="0.2 0.1 0.05"/>
      <body name="left" pos="0.15 0.12 0"><joint name="left" axis="0 1 0" damping="0.5"/>
        <geom type="capsule" fromto="0 0 0 0.05 0 -0.3" size="0.03"/></body>
      <body name="right" pos="-0.1 -0.12 0"><joint name="right" axis="0 1 0" damping="0.5"/>
        <geom type="capsule" fromto="0 0 0 -0.1 0 -0.3" size="0.03"/></body>
    </body>
  </worldbody>
  <actuator>
    <position name="left" joint="left" kp="20" ctrlrange="-0.5 1"/>
    <general name="right" joint="right" dyntype="filter" dynprm="0.1" gainprm="5" ctrlrange="-1 1" ctrllimited="true"/>
  </actuator>
  <keyframe><key name="home" time="1" qpos="1 2 0.5 1 0 0 0 0.3 -0.3" ctrl="0.3 -0.3"/></keyframe>
</mujoco>"""


def test_a_model_of_ones_own_is_equal_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quadruped.xml").write_text(QUADRUPED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for xml_file in (str(tmp_path / "quadruped.xml"), "./quadruped.xml", "~/quadruped.xml"):
        keywords = {"xml_file": xml_file, "main_body": "trunk", "frame_skip": 5, "healthy_z_range": (0.1, 0.6)}
        ours = our_class("Ant")({**keywords, "steps_per_episode": LIMIT})
        assert assert_same_rollout(ours, original("Ant", LIMIT, **keywords), num_steps=300) >= 2
        assert ours.scene.model.opt.timestep == 0.004


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no model file '.*/assets/nothing.xml'"):
        our_class("Ant")(xml_file="nothing.xml")


def test_what_cannot_be_configured_is_refused() -> None:
    with pytest.raises(ValueError, match="AntV5Cfg has no field 'control_frequency'"):
        our_class("Ant")(control_frequency=20)
    with pytest.raises(ValueError, match="ReacherV5Cfg has noise of its own at a reset"):
        our_class("Reacher")(reset_noise_scale=0.1)
    with pytest.raises(ValueError, match="frame_skip must be at least 1, got 0"):
        our_class("Ant")(frame_skip=0)


def test_both_ids_give_the_same() -> None:
    ids = ("superdex_gym/GymnasiumWalker2d-v5", "Walker2d-v5")
    ours, theirs = (gymnasium.make(task_id, healthy_reward=2.0) for task_id in ids)
    assert assert_same_rollout(ours, theirs, num_steps=200) > 2


def test_the_native_batch_gives_the_same_as_gymnasiums_vector_environment() -> None:
    ours = gymnasium.make_vec("superdex_gym/GymnasiumHopper-v5", num_envs=6)
    theirs = gymnasium.make_vec("Hopper-v5", num_envs=6, vectorization_mode="sync")
    assert isinstance(ours, SceneVectorEnv)
    assert [inner.kind for inner in ours.inner_backends] == ["native"]
    (observation, info), (wanted, wanted_info) = ours.reset(seed=5), theirs.reset(seed=5)
    assert np.array_equal(observation, wanted)
    assert_has(info, wanted_info, "of the reset")
    ended, rng = 0, np.random.default_rng(0)
    for step in range(120):
        actions = rng.uniform(-1, 1, (6, 3)).astype(np.float32)
        actual, expected = tuple(ours.step(actions)), theirs.step(actions)
        for one, other in zip(actual[:4], expected[:4], strict=True):
            assert np.array_equal(one, other)
        assert_has(actual[4], expected[4], f"of step {step}")
        ended += np.count_nonzero(expected[2])
    assert ended > 10
    ours.close()
    theirs.close()


def test_mujoco_is_not_asked_for_wrenches_where_they_are_not_read() -> None:
    assert our_class("Hopper")().scene.model.nplugin == 0
    assert mujoco.mj_name2id(our_class("Ant")().scene.model, mujoco.mjtObj.mjOBJ_PLUGIN, "superdex.wrenches") == 0
