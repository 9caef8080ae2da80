"""Model files: read and compiled once per file and edits, and again when they change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np
import pytest

from superdex.physics import FileCacheStats, clear_file_cache, enable_file_cache, file_cache_stats, load_model
from tests.physics.models import PENDULUM


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    clear_file_cache()
    yield
    enable_file_cache(True)
    clear_file_cache()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pendulum.xml"
    path.write_text(PENDULUM)
    return path


def set_damping(spec: mujoco.MjSpec, value: float) -> None:
    spec.joint("hinge").damping[0] = value


def set_gravity(spec: mujoco.MjSpec, *value: float) -> None:
    spec.option.gravity = value


def test_a_file_is_compiled_once_per_distinct_edits(path: Path) -> None:
    assert file_cache_stats() == FileCacheStats(hits=0, misses=0)
    for _ in range(3):
        load_model(path)
    assert file_cache_stats() == FileCacheStats(hits=2, misses=1)
    for _ in range(2):
        load_model(path, set_damping, 0.5)
        load_model(path, set_damping, 0.6)
        load_model(path, set_gravity, 0, 0, -1)
    assert file_cache_stats() == FileCacheStats(hits=5, misses=4)


def test_edits_are_applied_and_told_apart(path: Path) -> None:
    assert load_model(path).dof_damping[0] == 0.1
    assert load_model(path, set_damping, 0.5).dof_damping[0] == 0.5
    assert load_model(path, set_damping, 0.6).dof_damping[0] == 0.6
    assert load_model(path, set_damping, 0.5).dof_damping[0] == 0.5
    assert np.array_equal(load_model(path, set_gravity, 0, 0, -1).opt.gravity, [0, 0, -1])
    assert load_model(path).dof_damping[0] == 0.1


def test_one_file_by_two_paths_is_one_entry(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    load_model(path)
    load_model("pendulum.xml")
    load_model(str(path.parent / "." / "pendulum.xml"))
    assert file_cache_stats() == FileCacheStats(hits=2, misses=1)


def test_models_are_independent_of_each_other(path: Path) -> None:
    first, second = load_model(path), load_model(path)
    first.opt.gravity[:] = 0
    first.dof_damping[:] = 7
    assert second.dof_damping[0] == load_model(path).dof_damping[0] == 0.1
    assert second.opt.gravity[2] == load_model(path).opt.gravity[2] == -9.81


def test_a_changed_file_is_read_again(path: Path) -> None:
    load_model(path)
    path.write_text(PENDULUM.replace('damping="0.1"', 'damping="0.25"'))
    assert load_model(path).dof_damping[0] == 0.25
    assert file_cache_stats() == FileCacheStats(hits=0, misses=2)


def test_a_file_touched_without_change_of_size_is_read_again(path: Path) -> None:
    load_model(path)
    path.write_text(PENDULUM.replace('damping="0.1"', 'damping="0.2"'))
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert load_model(path).dof_damping[0] == 0.2


def test_a_changed_included_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "elsewhere").mkdir()
    part, path = tmp_path / "parts" / "option.xml", tmp_path / "main.xml"
    part.write_text('<mujoco><option gravity="0 0 -1"/></mujoco>')
    path.write_text(PENDULUM.replace("<worldbody>", '<include file="parts/option.xml"/><worldbody>', 1))
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load_model(path).opt.gravity[2] == -1
    load_model(path)
    assert file_cache_stats() == FileCacheStats(hits=1, misses=1)
    part.write_text('<mujoco><option gravity="0 0 -22"/></mujoco>')
    assert load_model(path).opt.gravity[2] == -22
    assert file_cache_stats() == FileCacheStats(hits=1, misses=2)


def test_a_disabled_cache_reads_every_time_and_counts_nothing(path: Path) -> None:
    load_model(path)
    enable_file_cache(False)
    load_model(path)
    load_model(path)
    assert file_cache_stats() == FileCacheStats(hits=0, misses=1)
    enable_file_cache(True)
    load_model(path)
    assert file_cache_stats() == FileCacheStats(hits=1, misses=1)


def test_clearing_forgets_models_and_counters(path: Path) -> None:
    load_model(path)
    clear_file_cache()
    assert file_cache_stats() == FileCacheStats(hits=0, misses=0)
    load_model(path)
    assert file_cache_stats() == FileCacheStats(hits=0, misses=1)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no model file '.*nowhere\.xml'.*MJCF"):
        load_model(tmp_path / "nowhere.xml")
    with pytest.raises(FileNotFoundError, match="no model file"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "<mujoco><worldbody><bdy/></worldbody></mujoco>",
        "<mujoco><worldbody><body></worldbody></mujoco>",
        "<mujoco><include file='nowhere.xml'/></mujoco>",
        "<mujoco><worldbody><body><joint/></body></worldbody></mujoco>",
        "not xml",
        "",
    ],
)
@pytest.mark.parametrize("cached", [True, False])
def test_a_file_that_does_not_compile_raises_value_error(path: Path, text: str, cached: bool) -> None:
    enable_file_cache(cached)
    path.write_text(text)
    with pytest.raises(ValueError, match=r"\w"):
        load_model(path)
    assert file_cache_stats() == FileCacheStats(hits=0, misses=0)
    path.write_text(PENDULUM)
    assert load_model(path).nq == 1


def test_an_edit_that_raises_leaves_no_entry(path: Path) -> None:
    def fail(spec: mujoco.MjSpec) -> None:
        raise RuntimeError("no")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no"):
            load_model(path, fail)
    assert file_cache_stats() == FileCacheStats(hits=0, misses=0)
