"""Captured states continue to the bit: anywhere, on any split, through a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.envs import EnvState, MochiEnv
from superdex.lab.gym.envs.benchmarks import AntEnv, CartPoleEnv, HalfCheetahEnv
from superdex.lab.gym.utils.vector import HybridVectorEnv, SceneVectorEnv
from tests.lab.gym.envs.tasks import ArmEnv
from tests.lab.gym.vector.comparing import assert_same

NUM_ENVS = 8
TASKS: dict[str, list[Callable[[], MochiEnv]]] = {
    "CartPole": [partial(CartPoleEnv, steps_per_episode=15)],
    "Ant": [partial(AntEnv, steps_per_episode=15)],
    "Arm": [partial(ArmEnv, steps_per_episode=9)],
    "mixed": [partial(CartPoleEnv, steps_per_episode=15), partial(CartPoleEnv, use_shared_scenes=False)],
}


def factories(name: str) -> list[Callable[[], MochiEnv]]:
    return [TASKS[name][index % len(TASKS[name])] for index in range(NUM_ENVS)]


def scene(name: str, mode: AutoresetMode) -> SceneVectorEnv:
    return SceneVectorEnv(factories(name), autoreset_mode=mode)


def hybrid(num_envs_per_worker: int) -> Callable[[str, AutoresetMode], HybridVectorEnv]:
    return lambda name, mode: HybridVectorEnv(factories(name), num_envs_per_worker, autoreset_mode=mode)


MAKERS = {"scene": scene, "hybrid 2 x 4": hybrid(4), "hybrid 8 x 1": hybrid(1)}


def actions(env: Any, seed: int, num_steps: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    space = env.single_action_space
    for _ in range(num_steps):
        yield rng.uniform(space.low, space.high, env.action_space.shape).astype(space.dtype)


def steps(env: Any, seed: int, num_steps: int = 25) -> list[Any]:
    return [tuple(env.step(action)) for action in actions(env, seed, num_steps)]


def play_until_some_are_pending(env: Any) -> np.ndarray:
    """Step until an episode has just ended, so that the state holds a pending reset; the last observations."""
    env.reset(seed=3)
    for action in actions(env, 0, 200):
        result = env.step(action)
        if (result.terminated | result.truncated).any():
            return result.observation
    raise AssertionError("no episode ended")


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("name", TASKS)
def test_a_state_continues_in_any_vector_environment(name: str, mode: AutoresetMode, tmp_path: Path) -> None:
    with scene(name, mode) as env:
        observation = play_until_some_are_pending(env)
        state = env.capture_state()
        expected = steps(env, 1)
        last = env.restore_state(state)
        assert_same(last, observation)
        assert_same(steps(env, 1), expected)
    assert state.pending.any() == (mode is AutoresetMode.NEXT_STEP)
    state.save(tmp_path / "state.npz")
    for make in MAKERS.values():
        with make(name, mode) as env:
            assert_same(env.restore_state(EnvState.load(tmp_path / "state.npz")), last)
            assert_same(steps(env, 1), expected)


@pytest.mark.parametrize("maker", MAKERS)
def test_every_vector_environment_captures_the_same_state(maker: str) -> None:
    states = []
    for make in (scene, MAKERS[maker]):
        with make("mixed", AutoresetMode.NEXT_STEP) as env:
            play_until_some_are_pending(env)
            states.append(env.capture_state())
    assert [section.key for section in states[0].sections] == [section.key for section in states[1].sections]
    for one, other in zip(states[0].sections, states[1].sections, strict=True):
        assert_same(one.environments, other.environments)
        assert_same(one.arrays, other.arrays)
    assert_same(states[0].pending, states[1].pending)


@pytest.mark.parametrize("maker", ["scene", "hybrid 2 x 4"])
def test_after_a_restore_that_failed_half_way_nothing_is_stepped_on(maker: str) -> None:
    with MAKERS[maker]("CartPole", AutoresetMode.NEXT_STEP) as env:
        env.reset(seed=0)
        state = env.capture_state()
        state.sections[0].arrays["seed"] = np.array(["0"] * (NUM_ENVS - 1) + ["damaged"])
        with pytest.raises(ValueError, match="damaged"):
            env.restore_state(state)
        with pytest.raises(ResetNeeded, match="after a call that failed"):
            steps(env, 1)
        env.reset(seed=0)
        steps(env, 1)


@pytest.mark.parametrize("cls", [CartPoleEnv, HalfCheetahEnv, AntEnv, ArmEnv])
def test_an_environment_alone_continues(cls: type[MochiEnv]) -> None:
    env, other = cls(), cls(use_shared_scenes=False)
    env.reset(seed=5)
    env.action_space.seed(0)
    for _ in range(5):
        last = env.step(env.action_space.sample())[0]
    state = env.capture_state()
    acts = [env.action_space.sample() for _ in range(10)]

    def continued(of: MochiEnv) -> list[Any]:
        return [of.step(action) for action in acts] + [of.reset()]

    expected = continued(env)
    assert_same(env.restore_state(state), last)
    assert_same(continued(env), expected)
    other.restore_state(state)
    assert_same(continued(other), expected)


@pytest.mark.parametrize("maker", MAKERS)
def test_of_a_row_of_a_batch_the_batch_has_the_state(maker: str) -> None:
    """A native batch has the observations of its environments; its state has a part that one alone can restore."""
    with MAKERS[maker]("CartPole", AutoresetMode.SAME_STEP) as env:
        env.reset(seed=5)
        last = steps(env, 1, 3)[-1][0]
        for call, arguments in (("capture_state", ()), ("restore_state", (env.capture_state().part(2, 3),))):
            with pytest.raises(
                RuntimeError, match=rf"of a native batch.*call {call}\(\) of the vector env.*part\(i"
            ) as caught:
                env.call_on([2], call, *arguments)
            assert any("environment 2" in note for note in caught.value.__notes__)
        part, alone = env.capture_state().part(2, 3), CartPoleEnv(steps_per_episode=15)
        assert_same(alone.restore_state(part), last[2])
        for action, expected in zip(actions(env, 2, 5), steps(env, 2, 5), strict=True):
            assert_same(alone.step(action[2])[0], expected[0][2])


def test_an_environment_that_is_stepped_by_itself_knows_its_last_observation() -> None:
    """Whatever was called last: reset, step, or restore_state of the vector environment."""
    with scene("mixed", AutoresetMode.NEXT_STEP) as env:
        rows = [index for inner in env.inner_backends if inner.kind == "sequential" for index in inner.environments]
        assert len(rows) == NUM_ENVS // 2

        def check(observation: np.ndarray) -> None:
            own = env.call_on(rows, "capture_state")
            assert_same(np.concatenate([state.observation for state in own]), observation[rows])

        check(env.reset(seed=0)[0])
        check(steps(env, 1, 3)[-1][0])
        state = env.capture_state()
        check(steps(env, 2, 3)[-1][0])
        check(env.restore_state(state))


def test_a_state_continues_in_a_new_process(tmp_path: Path) -> None:
    with scene("CartPole", AutoresetMode.NEXT_STEP) as env:
        play_until_some_are_pending(env)
        env.capture_state().save(tmp_path / "state.npz")
        expected = [env.step(np.full((NUM_ENVS, 1), 0.5, np.float32)).observation for _ in range(30)][-1]
    script = f"""
import numpy as np
from superdex.lab.gym.envs import EnvState
from superdex.lab.gym.envs.benchmarks import CartPoleEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv
env = SceneVectorEnv(CartPoleEnv, {NUM_ENVS}, steps_per_episode=15)
env.restore_state(EnvState.load({str(tmp_path / "state.npz")!r}))
print([env.step(np.full(({NUM_ENVS}, 1), 0.5, np.float32)).observation for _ in range(30)][-1].tobytes().hex())
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert bytes.fromhex(result.stdout.strip()) == expected.tobytes()


def test_a_masked_reset_after_restoring_leaves_the_other_observations() -> None:
    with scene("CartPole", AutoresetMode.NEXT_STEP) as env, scene("CartPole", AutoresetMode.NEXT_STEP) as other:
        observation = play_until_some_are_pending(env)
        other.restore_state(env.capture_state())
        mask = np.arange(NUM_ENVS) == 0
        assert_same(other.reset(options={"reset_mask": mask})[0][1:], observation[1:])


def test_with_autoreset_disabled_ended_episodes_are_remembered() -> None:
    with scene("CartPole", AutoresetMode.DISABLED) as env, scene("CartPole", AutoresetMode.DISABLED) as other:
        play_until_some_are_pending(env)
        other.restore_state(env.capture_state())
        with pytest.raises(gymnasium.error.ResetNeeded, match="have ended"):
            other.step(next(actions(other, 0, 1)))


def test_an_environment_that_was_never_reset_still_needs_it_afterwards() -> None:
    with scene("CartPole", AutoresetMode.NEXT_STEP) as env, scene("CartPole", AutoresetMode.NEXT_STEP) as other:
        other.reset(seed=0)
        other.restore_state(env.capture_state())
        with pytest.raises(gymnasium.error.ResetNeeded):
            other.step(next(actions(other, 0, 1)))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            partial(SceneVectorEnv, CartPoleEnv, NUM_ENVS, steps_per_episode=16),
            "environment 0.*steps_per_episode is 16",
        ),
        (partial(SceneVectorEnv, CartPoleEnv, 3, steps_per_episode=15), "a state of 3 environments.*into 8"),
        (partial(SceneVectorEnv, AntEnv, NUM_ENVS), "environment 0.*AntEnv, not .*CartPoleEnv"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(make: Any, other: Any, message: str) -> None:
    with make("CartPole", AutoresetMode.NEXT_STEP) as env, scene("CartPole", AutoresetMode.NEXT_STEP) as twin:
        env.reset(seed=0)
        twin.reset(seed=0)
        with other() as stranger:
            stranger.reset(seed=0)
            state = stranger.capture_state()
        with pytest.raises(ValueError, match=message):
            env.restore_state(state)
        assert_same(steps(env, 0, 3), steps(twin, 0, 3))


def test_a_state_with_pending_resets_asks_for_its_mode() -> None:
    with scene("CartPole", AutoresetMode.NEXT_STEP) as env, scene("CartPole", AutoresetMode.SAME_STEP) as other:
        play_until_some_are_pending(env)
        with pytest.raises(ValueError, match="autoreset mode NextStep.*cannot continue with mode SameStep"):
            other.restore_state(env.capture_state())


def foreign() -> gymnasium.Env:
    return gymnasium.make("Pendulum-v1")


def limited() -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(CartPoleEnv(), 10)


def test_environments_that_cannot_be_captured_are_named_and_stay_usable() -> None:
    with HybridVectorEnv([foreign] * 2, 1) as env:
        env.reset(seed=0)
        with pytest.raises(TypeError, match="environment 0 .*Pendulum"):
            env.capture_state()
        env.step(env.action_space.sample())
    with SceneVectorEnv([CartPoleEnv, limited]) as env:
        env.reset(seed=0)
        with pytest.raises(TypeError, match="environment 1 .*TimeLimit"):
            env.capture_state()


def damaged(state: EnvState, path: Path, how: str) -> None:
    state.save(path)
    data = path.read_bytes()
    if how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_text("not a state")
    elif how == "other arrays":
        np.savez(path, weights=np.zeros(3))
    else:
        with open(path, "wb") as file:
            np.save(file, np.array([{}], dtype=object) if how == "pickle" else np.zeros(3))


@pytest.mark.parametrize("how", ["truncated", "empty", "text", "other arrays", "pickle", "one array"])
def test_a_file_that_is_no_state_is_refused(how: str, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    env = CartPoleEnv()
    env.reset(seed=0)
    damaged(env.capture_state(), path, how)
    with pytest.raises(ValueError, match=r"state\.npz.*is not a whole superdex-gym environment state"):
        EnvState.load(path)


def test_a_file_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = CartPoleEnv()
    env.reset(seed=0)
    monkeypatch.setattr("superdex.lab.gym.envs.env_state._VERSION", 2)
    env.capture_state().save(tmp_path / "state.npz")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="version 2; this release reads .*version 1"):
        EnvState.load(tmp_path / "state.npz")


def test_a_failing_save_leaves_the_previous_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = CartPoleEnv()
    env.reset(seed=0)
    path = tmp_path / "state.npz"
    env.capture_state().save(path)
    before = path.read_bytes()

    def fail(*args: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        env.capture_state().save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
