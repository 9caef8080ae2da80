"""Tasks are found by what people type: names, ids, classes; and what is said where there is none."""

import sys

import gymnasium
import pytest

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tasks import Task, configured_task, find_task, format_cfg, parse_cfg, task_of_class
from superdex.lab.gym.envs.benchmarks.ant_env import AntCfg, AntEnv
from tests.lab.apps.own_tasks import HastyEnv, OwnEnv, UnfitEnv
from tests.lab.gym.envs.tasks import PendulumEnv

OWN = "tests.lab.apps.own_tasks"


@pytest.mark.parametrize("name", ["Ant", "Ant-v0", "superdex_gym/Ant-v0"])
def test_task_is_found_by_each_of_its_names(name):
    task = find_task(name)

    assert task.task_id == "superdex_gym/Ant-v0"
    assert task.env_class is AntEnv


def test_variant_has_its_fields():
    env = find_task("AntRotationVector").make(steps_per_episode=7)

    assert env.cfg == AntCfg(use_rotation_vector=True, steps_per_episode=7)
    env.close()


def test_own_class_is_a_task():
    task = find_task("tests.lab.gym.envs.tasks:PendulumEnv")

    assert task.name == "Pendulum"
    assert task.env_class is PendulumEnv
    env = task.make(steps_per_episode=7)
    assert type(env) is PendulumEnv
    assert env.cfg.steps_per_episode == 7
    env.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tests.lab.gym.envs.tasks:PendulumEnvv", r"has no 'PendulumEnvv', .*Did you mean 'PendulumEnv'\?"),
        ("tests.lab.gym.envs.tasks:np", "is not a class that derives from MochiEnv"),
        ("tests.no_such_module:PendulumEnv", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_own_class_that_is_none_is_told_at_once(name, message):
    with pytest.raises(UserError, match=message):
        find_task(name)


def test_unknown_task_names_the_nearest_or_all():
    with pytest.raises(UserError, match=r"There is no task 'cartpol'\. Did you mean 'CartPole'\?"):
        find_task("cartpol")
    with pytest.raises(UserError, match=r"There is no task 'Xyzzy'\. There are: Ant, .*HalfCheetah"):
        find_task("Xyzzy")


def test_class_is_a_task():
    assert task_of_class(OwnEnv) == find_task(f"{OWN}:OwnEnv")
    assert task_of_class(OwnEnv, {"steps_per_episode": 7}).make().cfg.steps_per_episode == 7
    with pytest.raises(UserError, match="^OwnCfg has no field 'step'"):
        task_of_class(OwnEnv, {"step": 7})


@pytest.mark.parametrize("name", [f"{OWN}:UnfitEnv", "own/Unfit-v0", f"{OWN}:own/Unfit-v0"])
def test_defaults_that_are_not_valid_are_told_and_can_be_mended(name):
    fault = r"simulation_frequency \(100 Hz\) must be a multiple of control_frequency \(30 Hz\)"
    with pytest.raises(UserError, match=rf"^The defaults of {name}, those of UnfitCfg, are not valid: {fault}"):
        find_task(name)
    with pytest.raises(UserError, match=rf"^The defaults of {name}, those of UnfitCfg, are not valid: {fault}"):
        configured_task(name, ["steps_per_episode=7"])
    assert find_task(name, {"control_frequency": 25}).fields == {"control_frequency": 25}
    assert configured_task(name, ["control_frequency=25"]) == find_task(name, {"control_frequency": 25})


def test_defaults_of_a_class_that_are_not_valid_are_told():
    with pytest.raises(UserError, match=rf"^The defaults of {OWN}:UnfitEnv, those of UnfitCfg, are not valid: sim"):
        task_of_class(UnfitEnv)


@pytest.mark.parametrize("name", ["CartPole", f"{OWN}:OwnEnv", "own/Cart-v3"])
def test_only_what_was_typed_is_blamed_on_the_option(name):
    with pytest.raises(UserError, match=r"^--cfg: \w+ has no field 'gone'\."):
        configured_task(name, ["gone=1"])
    with pytest.raises(UserError, match=r"^\w+ has no field 'gone'\."):
        find_task(name, {"gone": 1})


def test_class_that_cannot_be_found_again_is_refused():
    class LocalEnv(OwnEnv):
        pass

    with pytest.raises(UserError, match=r"LocalEnv must be defined at the top level of its module"):
        task_of_class(LocalEnv)
    with pytest.raises(UserError, match=r"derives from MochiEnv, got <class 'int'>"):
        task_of_class(int)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "task_id", "steps_per_episode"),
    [
        (f"{OWN}:own/Cart-v0", f"{OWN}:own/Cart-v0", 1000),
        (f"{OWN}:own/Cart", f"{OWN}:own/Cart-v3", 7),  # the newest version
        ("own/Cart-v3", "own/Cart-v3", 7),
        (f"{OWN}:own/Made-v0", f"{OWN}:own/Made-v0", 1000),  # by its vector entry point
        ("superdex.lab.gym:superdex_gym/Ant-v0", "superdex.lab.gym:superdex_gym/Ant-v0", 1000),
    ],
)
def test_id_of_ones_own_is_a_task(name, task_id, steps_per_episode):
    task = find_task(name)

    assert task.task_id == task_id
    assert find_task(task_id) == task
    assert "/" not in task.name
    assert task.env_class in (OwnEnv, AntEnv)
    env = task.make()
    assert env.cfg.steps_per_episode == steps_per_episode
    env.close()
    assert not task.is_ours


def test_module_is_imported_before_its_id_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "registering.py").write_text(
        "import gymnasium\n"
        "from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv\n"
        "gymnasium.register('registering/Cart-v0', CartPoleEnv, kwargs={'steps_per_episode': 7})\n"
    )
    with pytest.raises(UserError, match=r"An id of your own is known once its module is imported: module:registering/"):
        find_task("registering/Cart-v0")
    try:
        assert find_task("registering:registering/Cart-v0").fields == {"steps_per_episode": 7}
    finally:
        del gymnasium.registry["registering/Cart-v0"]


def test_directory_of_a_run_is_no_task(tmp_path):
    with pytest.raises(UserError, match=r"There is no task '.*'\. It is a directory: `superdex play .*` plays the pol"):
        find_task(str(tmp_path))


def test_class_comes_before_an_id_of_the_same_name():
    assert find_task(f"{OWN}:HastyEnv").env_class is HastyEnv
    assert find_task("HastyEnv").env_class is OwnEnv


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own/Lambda-v0", r"is no task of this library: its entry point must be .*MochiEnv, .*got <function <lambda>"),
        ("own/Wrapped-v0", r"with max_episode_steps or additional_wrappers, .*kwargs=\{'steps_per_episode': 200\}"),
        ("own/Typo-v0", r"with kwargs=\{'steps_per_epsiode': 7\}: OwnCfg has no field .*Did you mean"),
        (f"{OWN}:own/Card-v0", r"has no 'own/Card-v0', and registers no such id\. Did you mean 'own/Cart-v0'\?"),
        ("Hopper", r"Did you mean 'GymnasiumHopper'\?"),
        ("CartPole-v1", r"There is no task 'CartPole-v1'\. Did you mean 'CartPole'\?"),  # Gymnasium's
        ("own_tasks.OwnEnv", r"A class of your own is given as module:Class, as in own_tasks:OwnEnv\."),
        ("tasks/own.py:OwnEnv", r"tasks/own\.py is a file; give its module, as Python imports it: tasks\.own:Class"),
        ("__main__:OwnEnv", r"OwnEnv was defined in a script that does not run now"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name, message):
    with pytest.raises(UserError, match=message):
        find_task(name)


def test_module_that_raises_is_told_where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "raising.py").write_text("x = 1\nx.y\n")

    with pytest.raises(UserError, match=r"AttributeError: 'int' object has no attribute 'y', in .*raising\.py, line 2"):
        find_task("raising:OwnEnv")


def test_configuration_is_typed_again_as_it_was():
    cfg = {"a": 1, "b": 0.5, "c": "text", "d": "1", "e": (1, "x"), "f": True, "g": "True", "h": None}

    texts = format_cfg(cfg)

    assert parse_cfg(texts) == cfg
    assert texts[:4] == ["a=1", "b=0.5", "c=text", "d='1'"]


@pytest.mark.parametrize(
    "text", ["{[1]:2}", "{1, [2]}", "-'a'", "[" * 5000, "-" * 100_000 + "1", "1 +", "9" * 10_000, "f(x)", "\0", ""]
)
def test_value_that_is_no_literal_is_text(text):
    assert parse_cfg([f"x={text}"]) == {"x": text}


@pytest.mark.parametrize("settings", [["a=1", "a=2"], ["a=1", "b=2", "a=1"], ["a=x", "a=(1, 2)"]])
def test_field_that_is_given_twice_is_refused(settings):
    with pytest.raises(UserError, match=r"^--cfg: a is given twice, as .* and as .*: give it once\."):
        parse_cfg(settings)


def test_only_registered_tasks_of_this_library_are_ours():
    assert find_task("Ant").is_ours
    assert not Task("Ant", "my_tasks:AntEnv").is_ours
