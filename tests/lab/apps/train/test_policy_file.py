"""Policies as files: what is read again, and what is said of files that are no such policy."""

import json

import numpy as np
import pytest

from superdex.lab.apps.train.policy_file import PolicyInfo, read_policy, save_policy
from tests.lab.apps.test_evaluation import make_policy

INFO = PolicyInfo(task_id="superdex_gym/CartPole-v0", steps=992_000, iteration=31, return_mean=964, length_mean=965)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "actor.npz"
    save_policy(path, make_policy(), INFO)
    return path


def change(file, header=None, **arrays):
    """Write the file again with fields of its header, and arrays, added or replaced; None removes an array."""
    with np.load(file) as old:
        new = dict(old)
    new["header"] = np.array(json.dumps({**json.loads(str(new["header"])), **(header or {})}))
    np.savez(file, **{name: array for name, array in (new | arrays).items() if array is not None})


def test_policy_comes_back_with_what_is_known_of_it(file):
    policy, info = read_policy(file)

    assert info == INFO
    rows = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_array_equal(policy.means(rows), make_policy().means(rows))


def test_label_says_it_in_a_line():
    assert INFO.label == "iteration 31, 992,000 steps, return 964.0"


@pytest.mark.parametrize(
    ("header", "arrays"),
    [({}, {}), ({"surprise": 1}, {}), ({}, {"surprise": np.zeros(3)}), ({"cfg": None}, {"log_std": None})],
)
def test_later_version_is_told_whatever_else_it_has(file, header, arrays):
    change(file, {"version": 2, **header}, **arrays)
    with pytest.raises(ValueError, match=r"actor\.npz' is of version 2; this release reads version 1\."):
        read_policy(file)


@pytest.mark.parametrize(
    ("header", "arrays", "message"),
    [
        ({"format": "another"}, {}, "is not a superdex-gym policy file"),
        ({"surprise": 1}, {}, "is not a whole superdex-gym policy file"),
        ({}, {"log_std": None}, "is not a whole superdex-gym policy file"),
    ],
)
def test_other_files_are_refused(file, header, arrays, message):
    change(file, header, **arrays)
    with pytest.raises(ValueError, match=rf"actor\.npz' {message}\."):
        read_policy(file)
