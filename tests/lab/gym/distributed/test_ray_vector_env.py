"""`RayVectorEnv` gives what one machine gives, to the bit, and fails as clearly."""

from __future__ import annotations

import gc
import shutil
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import ray
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit

from superdex.lab.gym.distributed import PlacementError, RayVectorEnv
from superdex.lab.gym.distributed.actor import _digest, versions
from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv, WorkerError
from superdex.lab.gym.vector.base import BatchedVectorEnv
from tests.lab.gym.distributed.acting import actions, steps
from tests.lab.gym.vector.comparing import assert_same
from tests.lab.gym.vector.mocks import INFOS, CountingEnv, FaultyEnv, MockEnv, MockSpec
from tests.lab.gym.vector.test_scene_vector_env import ThreadedEnv

pytestmark = pytest.mark.usefixtures("cluster")

NEXT, SAME, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
POLE = partial(CartPoleEnv, steps_per_episode=9)


def limited() -> gymnasium.Env:
    """Of the same spaces, but stepped by itself."""
    return TimeLimit(CartPoleEnv(), 7)


MIXED: list[Callable[[], gymnasium.Env]] = [POLE, POLE, limited, POLE] * 2


def play(env: BatchedVectorEnv) -> list[Any]:
    """Resets and steps; without autoreset, all are reset when one has ended."""
    results: list[Any] = [env.reset(seed=3)]
    for step in range(30):
        results.append(tuple(env.step(actions(env, step))))
        ended = results[-1][2] | results[-1][3]
        if env.autoreset_mode is DISABLED and ended.any():
            results.append(env.reset())
    return results


@pytest.mark.parametrize("mode", [NEXT, SAME, DISABLED])
def test_results_are_those_of_one_machine(mode: AutoresetMode) -> None:
    with SceneVectorEnv(MIXED, autoreset_mode=mode) as env:
        expected = play(env)
    with RayVectorEnv(MIXED, 4, autoreset_mode=mode, num_threads_per_worker=2) as env:
        assert set(env.worker_nodes) == {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        assert [inner.environments for inner in env.inner_backends] == [(0, 1, 3), (2,), (4, 5, 7), (6,)]
        assert env.metadata["autoreset_mode"] is mode
        assert_same(play(env), expected)


def test_any_infos_come_as_from_worker_processes() -> None:
    spec = MockSpec(observation_dtype="uint8", raw_dtype="uint8", infos=tuple(INFOS), info_chance=0.6)
    results = []
    for kind, split in ((RayVectorEnv, 2), (HybridVectorEnv, 3)):
        with kind([partial(MockEnv, spec)] * 6, split) as env:
            options = {"limit": 3}
            results.append([env.reset(seed=1, options=options), *steps(env, 0, 15)])
            assert options == {"limit": 3}
    assert_same(*results)


def test_states_continue_between_kinds() -> None:
    """Captured in the step in which episodes ended, and carried from Ray to one process and back, on another split."""
    with RayVectorEnv([POLE] * 6, 3) as env, SceneVectorEnv([POLE] * 6) as other:
        env.reset(seed=5)
        last = steps(env, 0, 9)[-1][0]
        state = env.capture_state()
        assert state.pending.any()
        expected = steps(env, 9, 25)
        assert_same(other.restore_state(state), last)
        assert_same(steps(other, 9, 25), expected)
        state = other.capture_state()
        expected = steps(other, 25, 40)
    with RayVectorEnv([POLE] * 6, 6) as env:
        env.restore_state(state)
        assert_same(steps(env, 25, 40), expected)


def test_methods_attributes_and_frames() -> None:
    with RayVectorEnv([CountingEnv] * 4, 2) as env:
        env.reset(seed=0)
        env.step(np.zeros((4, 2), np.float32))
        env.set_attr("label", list("abcd"))
        assert env.get_attr("label") == tuple("abcd")
        assert len(set(env.call("process_id"))) == 2
        assert [frame.tolist() for frame in env.render()] == [[[[1, 1, 1]]]] * 4
        assert len(env.render([3, 0])) == 2
        assert env.metadata["kept"] == "as it is"
        assert env.np_random_seed == (0, 1, 2, 3)
        with pytest.raises(KeyError, match="no such thing") as caught:
            env.call("raises", "no such thing")
        assert caught.value.__notes__ == ["Raised in environment 0.", "Raised in worker 0."]
        with pytest.raises(TypeError, match=r"The arguments of call\('raises'\) cannot be sent"):
            env.call("raises", (each for each in ()))
        assert env.step(np.zeros((4, 2), np.float32)).observation[:, 0].tolist() == [2] * 4, "it is still usable"


def test_the_configured_number_of_threads_counts_where_no_other_is_given() -> None:
    factories = [partial(ThreadedEnv, num_worker_threads=3)] * 4
    for argument, expected in ((0, 3), (2, 2)):
        with RayVectorEnv(factories, 4, num_threads_per_worker=argument) as env:
            assert env.call_on([1], "num_threads") == (expected,)


def test_results_are_overwritten_if_asked_for() -> None:
    with RayVectorEnv([CountingEnv] * 2, 2, copy=False) as env:
        first, _ = env.reset(seed=0)
        env.step(np.zeros((2, 2), np.float32))
        assert first[:, 0].tolist() == [1, 1]


def test_an_exception_of_an_environment_is_raised_and_closes() -> None:
    with RayVectorEnv([CountingEnv, CountingEnv, CountingEnv, partial(FaultyEnv, "value_error")], 2) as env:
        with pytest.raises(ResetNeeded):
            env.step(np.zeros((4, 2), np.float32))
        env.reset()
        with pytest.raises(ValueError, match="bad joint 3") as caught:
            steps_of_zeros(env, 9)
        assert caught.value.__notes__ == ["Raised in environment 3.", "Raised in worker 1."]
        assert isinstance(caught.value.__cause__, WorkerError)
        assert "in value_error" in caught.value.__cause__.worker_traceback
        with pytest.raises(ClosedEnvironmentError):
            env.reset()


def steps_of_zeros(env: BatchedVectorEnv, num_steps: int) -> None:
    for _ in range(num_steps):
        env.step(np.zeros(env.action_space.shape, np.float32))


def test_a_factory_that_fails_is_named() -> None:
    with pytest.raises(ValueError, match="bad joint 3") as caught:
        RayVectorEnv([CountingEnv, partial(FaultyEnv, "value_error", "constructor")], 2)
    assert caught.value.__notes__ == ["Raised by the factory of environment 1.", "Raised in worker 0."]


def test_what_close_raises_is_raised() -> None:
    env = RayVectorEnv([CountingEnv, partial(FaultyEnv, "value_error", "close")], 2)
    with pytest.raises(ValueError, match="bad joint 3"):
        env.close()
    env.close()


def test_a_cluster_without_room_says_what_was_asked_and_what_there_is() -> None:
    asked = (
        "2 workers with 50 CPUs each need 100 CPUs, which the cluster did not have within scheduling_timeout = 0.5 s"
    )
    found = r"Its nodes have 3 \+ 3 CPUs, of which [\d.]+ are free. Use fewer workers"
    with pytest.raises(PlacementError, match=rf"{asked}. {found}"):
        RayVectorEnv([CountingEnv] * 2, num_threads_per_worker=50, scheduling_timeout=0.5)
    with RayVectorEnv([CountingEnv], num_threads_per_worker=50, num_cpus_per_worker=0.5) as env:
        env.reset()  # nothing stayed reserved, and Ray is still there


@pytest.mark.parametrize("library", ["mujoco", "numpy", "gymnasium", "superdex-gym"])
def test_workers_are_refused_whose_libraries_differ(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("superdex.lab.gym.distributed.pool.versions", lambda: versions() | {library: "0.0.1"})
    with pytest.raises(
        WorkerError, match=rf"Node \w+ has {library} .+, this process has 0.0.1, so results would depend"
    ):
        RayVectorEnv([CountingEnv])


def test_a_source_tree_is_told_by_its_files(tmp_path: Path) -> None:
    digests = []
    for edit in ("model.xml", "module.py", "nested/module.py", "notes.txt"):
        path = tmp_path / "package" / edit
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("edited")
        copy = Path(shutil.copytree(tmp_path / "package", tmp_path / f"copy {len(digests)}"))
        digests.append(_digest((copy,)))
    assert len(set(digests[:3])) == 3
    assert digests[3] == digests[2], "notes decide nothing"


def test_a_closed_environment_keeps_no_batch() -> None:
    env = RayVectorEnv([POLE], autoreset_mode=SAME)
    env.reset(seed=0)
    batch = weakref.ref(env._buffers.observation)
    env.close()
    gc.collect()
    assert batch() is None
    assert env.worker_nodes[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_cpus_per_worker": 0}, "num_cpus_per_worker must be a whole number of CPUs, or a fraction"),
        ({"num_cpus_per_worker": 1.5}, "between 0 and 1, got 1.5"),
        ({"num_threads_per_worker": -1}, "num_threads_per_worker must be at least 0, got -1"),
        ({"num_envs_per_worker": 2}, "must be divisible"),
        ({"on_worker_failure": "ignore"}, 'on_worker_failure must be "raise" or "restart"'),
        ({"scheduling_timeout": -1.0}, "scheduling_timeout must be a number of seconds of at least 0, got -1.0"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RayVectorEnv([CountingEnv], **arguments)
