"""With `on_worker_failure="restart"`, a dead worker costs the episodes of its environments and nothing else."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.utils.vector import (
    BatchedStepResult,
    HybridVectorEnv,
    RestartUntoldError,
    WorkerError,
    WorkerTimeoutError,
)
from superdex.lab.gym.vector.restart_seeds import RestartSeeds
from tests.lab.gym.vector.comparing import assert_same
from tests.lab.gym.vector.mocks import CountingEnv, FaultyEnv, OnceFaultyEnv

NEXT, SAME, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
REASON = "Worker restarted"
OTHERS = [0, 1, 4, 5]
"""Of six environments in three workers, those that do not belong to worker 1."""
TASKS: dict[str, Callable[[], gymnasium.Env]] = {
    "native": partial(CartPoleEnv, steps_per_episode=9),
    "sequential": partial(CountingEnv, 7),
}

Restarting = partial(HybridVectorEnv, num_envs_per_worker=2, on_worker_failure="restart")


def kill(env: HybridVectorEnv, worker: int) -> None:
    """As the system does when memory runs out."""
    pid = env._pool._workers[worker].process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def actions(env: HybridVectorEnv, step: int) -> np.ndarray:
    return np.random.default_rng(step).uniform(-1, 1, env.action_space.shape).astype(np.float32)


def zeros(env: HybridVectorEnv) -> np.ndarray:
    return np.zeros(env.action_space.shape, np.float32)


def rollout(
    task: str, mode: AutoresetMode, kills: Iterable[int] = (), num_steps: int = 20, copy: bool = True
) -> list[BatchedStepResult]:
    """Worker 1 is killed before the steps of `kills`."""
    results = []
    with HybridVectorEnv(
        [TASKS[task]] * 6, 2, autoreset_mode=mode, on_worker_failure="restart", worker_timeout=60, copy=copy
    ) as env:
        env.reset(seed=3)
        for step in range(num_steps):
            if step in kills:
                kill(env, 1)
            result = env.step(actions(env, step))
            results.append(result if copy else BatchedStepResult(*map(np.copy, result[:4]), result.info))
        assert env.worker_restarts == (0, len(list(kills)), 0)
    return results


def only(info: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    """The infos of `rows`, without keys that none of them has."""
    chosen = {}
    for key, values in info.items():
        if not key.startswith("_") and info[f"_{key}"][rows].any():
            chosen[key] = only(values, rows) if isinstance(values, dict) else values[rows]
            chosen[f"_{key}"] = info[f"_{key}"][rows]
    return chosen


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("mode", [NEXT, SAME])
def test_all_other_environments_are_undisturbed_and_the_run_repeats(task: str, mode: AutoresetMode) -> None:
    kills = (4, 12, 13)
    undisturbed, first = rollout(task, mode), rollout(task, mode, kills)
    second = rollout(task, mode, kills, copy=mode is SAME)
    for step, (expected, one, two) in enumerate(zip(undisturbed, first, second, strict=True)):
        assert_same(tuple(one), tuple(two), f"step {step}")
        for one_part, expected_part in zip(one[:4], expected[:4], strict=True):
            assert_same(one_part[OTHERS], expected_part[OTHERS], f"step {step}")
        assert_same(only(one.info, OTHERS), only(expected.info, OTHERS), f"step {step}")
    assert (first[-1].observation[2:4] != undisturbed[-1].observation[2:4]).any()


def test_next_step() -> None:
    env = Restarting([partial(CountingEnv, 5)] * 6)
    with env:
        env.reset(seed=0)
        before = [env.step(zeros(env)) for _ in range(2)][-1]
        kill(env, 1)
        lost = env.step(zeros(env))
        assert_same(lost.observation[2:4], before.observation[2:4])
        assert lost.observation[OTHERS, 0].tolist() == [3] * 4
        assert lost.reward.tolist() == [3, 3, 0, 0, 3, 3]
        assert lost.truncated.tolist() == [False, False, True, True, False, False]
        assert not lost.terminated.any()
        assert lost.info["truncated_reason"].tolist() == [None, None, REASON, REASON, None, None]
        assert lost.info["_truncated_reason"].tolist() == lost.truncated.tolist()
        assert lost.info["_steps"].tolist() == (~lost.truncated).tolist()
        after = env.step(zeros(env))
        assert after.observation[:, 0].tolist() == [4, 4, 0, 0, 4, 4]
        assert after.reward.tolist() == [4, 4, 0, 0, 4, 4]
        assert not after.truncated.any()
        assert after.info["steps"].tolist() == [4, 4, 0, 0, 4, 4]
        assert len({*before.observation[:, 1], *after.observation[2:4, 1]}) == 8  # draws like no other
        assert env.step(zeros(env)).observation[:, 0].tolist() == [5, 5, 1, 1, 5, 5]
        assert env.worker_restarts == (0, 1, 0)


def test_same_step() -> None:
    with Restarting([partial(CountingEnv, 5)] * 6, autoreset_mode=SAME) as env:
        env.reset(seed=0)
        before = env.step(zeros(env))
        kill(env, 1)
        lost = env.step(zeros(env))
        assert lost.observation[:, 0].tolist() == [2, 2, 0, 0, 2, 2]
        assert lost.truncated.tolist() == lost.info["_final_obs"].tolist() == [False, False, True, True, False, False]
        for row in (2, 3):
            assert_same(lost.info["final_obs"][row], before.observation[row])
        assert lost.info["final_obs"][0] is None
        assert lost.info["final_info"]["truncated_reason"].tolist() == [None, None, REASON, REASON, None, None]
        assert lost.info["steps"].tolist() == [2, 2, 0, 0, 2, 2]
        assert env.step(zeros(env)).observation[:, 0].tolist() == [3, 3, 1, 1, 3, 3]


def test_without_autoreset() -> None:
    draws = []
    for _ in range(2):
        with Restarting([partial(CountingEnv, 5)] * 6, autoreset_mode=DISABLED) as env:
            env.reset(seed=0)
            kill(env, 1)
            lost = env.step(zeros(env))
            assert lost.truncated.tolist() == [False, False, True, True, False, False]
            assert lost.observation[:, 0].tolist() == [1, 1, 0, 0, 1, 1]
            with pytest.raises(ResetNeeded, match=r"environments \[2, 3\] have ended"):
                env.step(zeros(env))
            draws.append(env.reset()[0][:, 1].tolist())
    assert draws[0] == draws[1]
    assert len(set(draws[0])) == 6


def test_a_worker_that_dies_while_it_writes_leaves_nothing_torn(tmp_path: Path) -> None:
    """Environment 2 has written its row of the step when environment 3 dies."""
    envs: list[Any] = [CountingEnv] * 3 + [partial(OnceFaultyEnv, str(tmp_path / "done"), "kill")]
    with Restarting(envs) as env:
        env.reset(seed=0)
        for _ in range(5):
            before, result = env._buffers.observation.copy(), env.step(zeros(env))
        assert_same(result.observation[2:], before[2:])
        assert result.reward[2:].tolist() == [0, 0]
        assert result.terminated.tolist() == [False] * 4
        assert result.truncated.tolist() == [False, False, True, True]


@pytest.mark.parametrize(("fault", "seed"), [("kill", 5), ("kill", None), ("sleep", 5)])
def test_a_reset_is_repeated(tmp_path: Path, fault: str, seed: int | None) -> None:
    """With the seeds that were given, where any were."""
    envs: list[Any] = [CountingEnv] * 3 + [partial(OnceFaultyEnv, str(tmp_path / "done"), fault, "reset")]
    with Restarting(envs, worker_timeout=2 if fault == "sleep" else None) as env:
        observations, infos = env.reset(seed=seed)
        assert env.worker_restarts == (0, 1)
        assert infos["steps"].tolist() == [0] * 4
        assert not env.step(zeros(env)).truncated.any()
    if seed is not None:
        assert observations[:, 1].tolist() == [np.random.default_rng(5 + i).random() for i in range(4)]


def test_a_call_is_repeated_and_the_next_step_tells(tmp_path: Path) -> None:
    envs: list[Any] = [partial(OnceFaultyEnv, str(tmp_path / f"done {i}"), "kill" if i == 3 else "") for i in range(4)]
    for env_fn in envs:
        env_fn.keywords["when"] = "call"
    for mode in (NEXT, SAME):
        (tmp_path / "done 3").unlink(missing_ok=True)
        with Restarting(envs, autoreset_mode=mode) as env:
            env.reset(seed=0)
            first = env.step(zeros(env))
            assert env.call("called") == (1, 1, 0, 0)
            lost = env.step(zeros(env))
            assert lost.truncated.tolist() == [False, False, True, True]
            assert lost.observation[:, 0].tolist() == ([2, 2, 1, 1] if mode is NEXT else [2, 2, 0, 0])
            if mode is SAME:
                assert_same(lost.info["final_obs"][2], first.observation[2])
            assert env.step(zeros(env)).observation[:, 0].tolist() == ([3, 3, 0, 0] if mode is NEXT else [3, 3, 1, 1])
            assert env.worker_restarts == (0, 1)


def test_attributes_that_were_set_are_set_again() -> None:
    with Restarting([CountingEnv] * 4) as env:
        env.set_attr("label", list("abcd"))
        env.set_attr("length", [9, 9, 9, 2])
        env.set_attr("label", list("efgh"))
        env.reset()
        kill(env, 1)
        env.step(zeros(env))
        assert env.get_attr("label") == tuple("efgh")
        assert env.get_attr("length") == (9, 9, 9, 2)


class Choosy(CountingEnv):
    """Refuses a length of 13."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "length" and value == 13:
            raise ValueError("unlucky")
        super().__setattr__(name, value)


def test_attributes_are_set_again_where_they_were_set_although_one_environment_refused() -> None:
    with Restarting([Choosy] * 6) as env:
        env.reset()
        env.set_attr("length", 5)
        for unlucky, expected in (
            ([7, 7, 7, 13, 7, 7], (7, 7, 7, 5, 7, 7)),
            ([8, 13, 13, 8, 8, 13], (8, 7, 7, 5, 8, 7)),
        ):
            for _ in range(3):
                with pytest.raises(ValueError, match="unlucky") as caught:
                    env.set_attr("length", unlucky)
                first = unlucky.index(13)
                assert caught.value.__notes__ == [f"Raised in environment {first}.", f"Raised in worker {first // 2}."]
            assert env.get_attr("length") == expected
            for worker in range(3):
                kill(env, worker)
            env.step(zeros(env))
            assert env.get_attr("length") == expected
        assert len(env._recovery._assigned) < 6  # type: ignore[union-attr]  # what holds no more is forgotten


class OnlyOnce(CountingEnv):
    """Takes a label if there is no file at `marker`, and leaves one."""

    def __init__(self, marker: Path) -> None:
        super().__init__()
        self._marker = marker

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "label" and value == "x":
            if self._marker.exists():
                raise ValueError("not again")
            self._marker.touch()
        super().__setattr__(name, value)


def test_a_value_that_is_refused_when_it_is_set_again_ends_it(tmp_path: Path) -> None:
    with Restarting([partial(OnlyOnce, tmp_path / name) for name in "ab"]) as env:
        env.reset()
        env.set_attr("label", "x")
        kill(env, 0)
        with pytest.raises(ValueError, match="not again") as caught:
            env.step(zeros(env))
        assert caught.value.__notes__ == ["Raised in environment 0.", "Raised in worker 0."]
        assert env.closed


@pytest.mark.parametrize("task", TASKS)
def test_an_episode_that_had_ended_is_not_lost_but_reset_as_usual(task: str) -> None:
    """Worker 1 dies in the step that resets in any case: native environments end after 9 steps, the others after 7."""
    length = 9 if task == "native" else 7
    with Restarting([TASKS[task]] * 6) as env:
        env.reset(seed=0)
        results = [env.step(zeros(env)) for _ in range(length)]
        assert (results[-1].terminated | results[-1].truncated).all()
        kill(env, 1)
        fresh = env.step(zeros(env))
        assert env.worker_restarts == (0, 1, 0)
        assert not fresh.reward.any()
        assert not (fresh.terminated | fresh.truncated).any()
        assert (fresh.observation[2:4] != results[-1].observation[2:4]).any()
        assert only(fresh.info, [2, 3]).keys() == only(fresh.info, OTHERS).keys()
        following = [env.step(zeros(env)) for _ in range(length)]
        ends = np.array([result.terminated | result.truncated for result in following])
        assert ends[-1].all()
        assert not ends[:-1].any()


def test_of_a_worker_some_episodes_are_lost_and_some_had_ended() -> None:
    with Restarting([partial(CountingEnv, 2), partial(CountingEnv, 5)] * 2) as env:
        env.reset(seed=0)
        last = [env.step(zeros(env)) for _ in range(2)][-1]
        assert last.terminated.tolist() == [True, False] * 2
        kill(env, 1)
        lost = env.step(zeros(env))
        assert lost.truncated.tolist() == [False, False, False, True]
        assert not lost.terminated.any()
        assert lost.observation[:, 0].tolist() == [0, 3, 0, 2]
        assert lost.info["truncated_reason"].tolist() == [None, None, None, REASON]
        assert env.step(zeros(env)).observation[:, 0].tolist() == [1, 4, 1, 0]
        kill(env, 0)
        assert env.call("process_id")  # here its death is noticed, between two steps
        assert env.step(zeros(env)).truncated.tolist() == [True, True, False, False]
        assert env.step(zeros(env)).observation[:2, 0].tolist() == [0, 0]


@pytest.mark.parametrize("mode", [NEXT, SAME, DISABLED])
@pytest.mark.parametrize("notice", ["call", "capture_state"])
def test_no_state_is_captured_as_long_as_lost_episodes_are_untold(mode: AutoresetMode, notice: str) -> None:
    with Restarting([CartPoleEnv] * 4, autoreset_mode=mode) as env:
        env.reset(seed=0)
        env.step(zeros(env))
        kill(env, 1)
        if notice == "call":
            env.call("dt")
        for _ in range(2):
            with pytest.raises(
                RestartUntoldError, match=r"Worker 1 died and was started again.*step \(or reset\) once"
            ):
                env.capture_state()
        assert env.worker_restarts == (0, 1)
        assert env.step(zeros(env)).truncated.tolist() == [False, False, True, True]
        state = env.capture_state()
        if mode is DISABLED:
            with pytest.raises(ResetNeeded):
                env.step(zeros(env))
            return
        went_on = [env.step(zeros(env)) for _ in range(3)]
        env.restore_state(state)
        for expected in went_on:
            assert_same(tuple(env.step(zeros(env))), tuple(expected))


def test_a_worker_that_does_not_reply_is_replaced(tmp_path: Path) -> None:
    envs: list[Any] = [CountingEnv, partial(OnceFaultyEnv, str(tmp_path / "done"), "spin"), CountingEnv]
    with HybridVectorEnv(envs, on_worker_failure="restart", worker_timeout=2) as env:
        env.reset(seed=0)
        results = [env.step(np.zeros((3, 2), np.float32)) for _ in range(6)]
        assert [result.truncated.tolist() for result in results[3:]] == [[False] * 3, [False, True, False], [False] * 3]
        assert env.worker_restarts == (0, 1, 0)


def test_several_die_at_once_and_again_as_they_start(tmp_path: Path) -> None:
    """Worker 1 is killed as its environments are made anew."""
    marker = tmp_path / "done"
    marker.touch()
    envs: list[Any] = [CountingEnv] * 2 + [partial(OnceFaultyEnv, str(marker), "kill", "constructor"), CountingEnv]
    with Restarting(envs) as env:
        env.reset(seed=0)
        marker.unlink()
        for worker in (0, 1):
            kill(env, worker)
        result = env.step(zeros(env))
        assert result.truncated.tolist() == [True] * 4
        assert env.worker_restarts == (1, 2)
        assert len(set(env.step(zeros(env)).observation[:, 1])) == 4


def test_there_is_a_limit() -> None:
    """`FaultyEnv` dies at its fifth step every time."""
    env = Restarting([CountingEnv] * 2 + [partial(FaultyEnv, "kill"), CountingEnv], max_worker_restarts=2)
    env.reset(seed=0)
    for _ in range(16):  # four and the fifth that is lost; a reset, four and the fifth; a reset and four
        env.step(zeros(env))
    with pytest.raises(WorkerError, match=r"Worker 1 \(environments 2 to 3\) was killed by signal 9") as caught:
        env.step(zeros(env))
    assert caught.value.__notes__ == ["It was restarted 2 times; max_worker_restarts = 2."]
    assert env.worker_restarts == (0, 2)
    with pytest.raises(ClosedEnvironmentError):
        env.reset()
    env.close()
    assert not multiprocessing.active_children()


def test_a_worker_that_cannot_start_again_ends_it() -> None:
    env = Restarting([CountingEnv] * 2, max_worker_restarts=3)
    env.reset()
    env._recovery.assigned("label", {0: (b"\xff", 2)})  # type: ignore[union-attr]  # no such request
    kill(env, 0)
    with pytest.raises(KeyError):
        env.call("process_id")
    assert env.closed


@pytest.mark.parametrize("when", ["reset", "step"])
def test_an_exception_of_an_environment_is_raised_all_the_same(when: str) -> None:
    env = Restarting([CountingEnv] * 3 + [partial(FaultyEnv, "value_error", when)])
    if when == "step":
        env.reset()
        for _ in range(4):
            env.step(zeros(env))
    with pytest.raises(ValueError, match="bad joint 3"):
        env.reset() if when == "reset" else env.step(zeros(env))
    assert env.closed
    assert env.worker_restarts == (0, 0)


@pytest.mark.parametrize(("fault", "error"), [("kill", WorkerError), ("sleep", WorkerTimeoutError)])
def test_a_death_before_there_is_a_batch_is_raised(fault: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="Worker 0"):
        Restarting([partial(FaultyEnv, fault, "constructor")] * 2, worker_timeout=1)


def test_a_restart_after_a_restored_state_repeats_too() -> None:
    draws = []
    with Restarting([CartPoleEnv] * 4) as env:
        env.reset(seed=1)
        env.step(zeros(env))
        state = env.capture_state()
    for _ in range(2):
        with Restarting([CartPoleEnv] * 4) as env:
            env.restore_state(state)
            kill(env, 0)
            env.step(zeros(env))
            draws.append(env.step(zeros(env)).observation.tolist())
    assert draws[0] == draws[1]
    assert draws[0][0] != draws[0][1]


def test_nothing_is_left_of_dead_workers() -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    with Restarting([CountingEnv] * 4) as env:
        env.reset()
        before = descriptors()
        for worker in (0, 1, 0):
            kill(env, worker)
            env.step(zeros(env))
        assert descriptors() == before
        assert len(multiprocessing.active_children()) == 2
    env.close()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on_worker_failure": "ignore"}, 'on_worker_failure must be "raise" or "restart", got \'ignore\''),
        ({"max_worker_restarts": 0}, "max_worker_restarts must be at least 1"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HybridVectorEnv([CountingEnv], **arguments)


def test_restart_seeds() -> None:
    seeds = RestartSeeds(3)
    seeds.reseed([7, 8, 7])
    first = [[seeds.draw(i) for i in range(3)] for _ in range(3)]
    assert [row[0] for row in first] == [row[2] for row in first]  # the same seed, the same stream
    assert len({seed for row in first for seed in row[:2]}) == 6
    assert all(0 <= seed < 2**31 for row in first for seed in row)
    seeds.reseed([7, None, 9])
    assert seeds.draw(0) == first[0][0]
    assert seeds.draw(1) not in {row[1] for row in first}
    unseeded = RestartSeeds(2)
    unseeded.reseed(None)
    assert unseeded.draw(0) != unseeded.draw(0)
    many = RestartSeeds(5000)
    many.reseed(list(range(5000)))
    assert len({many.draw(i) for i in range(5000)}) == 5000
