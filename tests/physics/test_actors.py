"""What a scene is made of, and its live views."""

from __future__ import annotations

import numpy as np
import pytest

from superdex.physics import Actor, ArticulatedActor, RigidActor, RomActor, Scene
from tests.physics.models import CONTACTS, DRIVEN, ROM, compiled


def test_each_tree_below_the_world_is_an_actor_of_its_kind() -> None:
    scene = Scene("scene", compiled(CONTACTS))
    assert [(actor.name, type(actor)) for actor in scene.actors] == [
        ("box", RigidActor),
        ("robot", ArticulatedActor),
        ("post", RigidActor),
        ("swing", ArticulatedActor),
    ]


def test_a_mocap_body_is_rigid() -> None:
    scene = Scene("scene", compiled(DRIVEN))
    hand = scene.find_actor("hand")
    assert isinstance(hand, RigidActor)
    assert hand.qpos.size == hand.qvel.size == hand.ctrl.size == 0


def test_a_flex_with_interpolated_nodes_is_one_rom_actor() -> None:
    scene = Scene("soft", compiled(ROM))
    blob = scene.find_actor("blob")
    assert isinstance(blob, RomActor)
    assert len(blob.body_ids) == 8
    assert blob.qpos.shape == blob.qvel.shape == (24,)
    assert [actor.name for actor in scene.actors] == ["ball", "blob"]


def test_find_actor_lists_what_there_is() -> None:
    scene = Scene("yard", compiled(CONTACTS))
    with pytest.raises(KeyError, match=r"Scene 'yard' has no actor 'bx'; it has \['box', 'robot', 'post', 'swing'\]"):
        scene.find_actor("bx")


def test_arrays_have_the_sizes_of_the_actor() -> None:
    scene = Scene("scene", compiled(CONTACTS))
    sizes = {a.name: (a.qpos.size, a.qvel.size, a.ctrl.size, a.applied_wrench.shape) for a in scene.actors}
    assert sizes == {
        "box": (7, 6, 0, (1, 6)),
        "robot": (8, 7, 3, (2, 6)),
        "post": (0, 0, 0, (1, 6)),
        "swing": (4, 3, 0, (1, 6)),
    }


def test_views_are_live_in_both_directions() -> None:
    scene = Scene("scene", compiled(CONTACTS))
    robot, batch = scene.find_actor("robot"), scene.batch
    scene.step(7)
    assert np.array_equal(robot.qpos, batch.field("qpos")[0, 7:15])
    assert np.array_equal(robot.qvel, batch.field("qvel")[0, 6:13])
    robot.ctrl[:] = [1, 2, 3]
    robot.applied_wrench[0, 2] = 500
    assert np.array_equal(batch.field("ctrl")[0], [1, 2, 3])
    assert batch.field("xfrc_applied")[0, scene.model.body("robot").id, 2] == 500
    height = robot.qpos[2]
    scene.step(20)
    assert robot.qpos[2] > height


def test_views_stay_live_after_a_restore() -> None:
    scene = Scene("scene", compiled(CONTACTS))
    box, handle = scene.find_actor("box"), scene.capture_state()
    start = box.qpos.copy()
    scene.step(20)
    assert not np.array_equal(box.qpos, start)
    scene.restore_state(handle)
    assert np.array_equal(box.qpos, start)


def test_actors_compare_by_identity() -> None:
    scene, other = Scene("scene", compiled(CONTACTS)), Scene("scene", compiled(CONTACTS))
    assert scene.find_actor("box") == scene.find_actor("box")
    assert scene.find_actor("box") != other.find_actor("box")
    assert isinstance(scene.find_actor("box"), Actor)
