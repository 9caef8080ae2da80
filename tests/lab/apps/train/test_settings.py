"""From settings to configurations: of new runs and resumed ones, with Python's values and NumPy's."""

from dataclasses import fields

import numpy as np
import pytest

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tasks import find_task
from superdex.lab.apps.train.config import Stepping, TrainConfig
from superdex.lab.apps.train.recipe import Recipe
from superdex.lab.apps.train.settings import new_config, resumed_config
from tests.lab.apps.train.test_parts import make_config

PLAIN = {each.name: getattr(Recipe(), each.name) for each in fields(Recipe)} | {
    "seed": 7,
    "checkpoint_every": 1000,
    "num_learning_threads": 3,
    "num_workers": 2,
    "num_threads": 4,
    "num_threads_per_worker": 2,
    "ray": True,
}
OTHER = {int: lambda value: value * 2, float: lambda value: value / 2 + 0.07, bool: lambda value: not value} | {
    str: {"linear": "constant", "relu": "tanh"}.get,
    tuple: lambda value: (*value, 64),
}
CFG = {"steps_per_episode": 50, "reset_noise_scale": 0.5, "free_pole": False, "render_size": (64, 48)}


def as_numpy(value):
    """The same as NumPy has it: a scalar, or an array."""
    array = np.array(value)
    return array if array.ndim else array[()]


def resumed(config, settings):
    return resumed_config(config, settings, "run", steps=0, finished=False)


@pytest.mark.parametrize("name", PLAIN)
def test_values_of_numpy_are_as_good_as_plain_ones(name):
    task, value = find_task("CartPole"), as_numpy(PLAIN[name])
    assert isinstance(value, np.generic | np.ndarray)

    config = new_config(task, {**PLAIN, name: value})

    assert config.to_json() == new_config(task, PLAIN).to_json()
    assert resumed(config, {name: value}) == config


@pytest.mark.parametrize("name", [name for name in PLAIN if name not in ("total_steps", *vars(Stepping()), "ray")])
def test_values_of_numpy_contradict_as_plain_ones_do(name):
    config, value = new_config(find_task("CartPole"), PLAIN), OTHER[type(PLAIN[name])](PLAIN[name])
    for given in (value, as_numpy(value)):
        with pytest.raises(UserError, match=rf"A resumed run keeps its settings: in run, --{name} is .*, not .*\."):
            resumed(config, {name: given})


@pytest.mark.parametrize("convert", [lambda value: value, as_numpy])
def test_fields_of_the_task_are_kept_as_it_holds_them(convert):
    cfg = {name: convert(value) for name, value in CFG.items()}
    config = new_config(find_task("CartPole", cfg), {})

    assert config.cfg == CFG
    read = TrainConfig.from_json(config.to_json())
    assert read.task.make().cfg == find_task("CartPole", CFG).make().cfg
    assert resumed(read, {"cfg": cfg}) == read
    with pytest.raises(UserError, match=r"--cfg is .*, not .*51"):
        resumed(read, {"cfg": {**cfg, "steps_per_episode": convert(51)}})
    with pytest.raises(UserError, match="CartPoleCfg has no field 'step'"):
        resumed(read, {"cfg": {"step": 1}})


WITHOUT, WITH = Stepping(num_threads=4), Stepping(num_workers=2, num_threads=4)
ON_RAY = Stepping(ray=True, num_threads=4)


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        (WITHOUT, {}),
        (WITHOUT, {"num_workers": 0}),
        (WITHOUT, {"num_threads": 2}),
        (WITHOUT, {"ray": False}),
        (WITH, {"num_workers": 0}),
        (ON_RAY, {"num_workers": 0}),
    ],
)
def test_threads_of_workers_that_are_not_there_are_refused(before, changes):
    settings = {**changes, "num_threads_per_worker": 4}
    message = r"--num_threads_per_worker is for workers, of which there are none, got 4\. Give --num_workers, too, or"
    with pytest.raises(UserError, match=message):
        resumed(make_config(stepping=before), settings)
    if before is WITHOUT:
        with pytest.raises(UserError, match=message):
            new_config(find_task("CartPole"), settings)


@pytest.mark.parametrize(
    ("before", "changes"),
    [(WITHOUT, {"num_workers": 4}), (WITHOUT, {"ray": True}), (WITH, {}), (ON_RAY, {}), (ON_RAY, {"ray": False})],
)
def test_threads_of_workers_are_taken(before, changes):
    stepping = resumed(make_config(stepping=before), {**changes, "num_threads_per_worker": 4}).stepping
    assert stepping.num_threads_per_worker == 4
    assert stepping.num_workers > 0


@pytest.mark.parametrize("changes", [{"num_workers": 0}, {"num_workers": 0, "num_threads_per_worker": 0}])
def test_share_of_workers_goes_with_them(changes):
    assert resumed(make_config(stepping=WITH), changes).stepping == WITHOUT
