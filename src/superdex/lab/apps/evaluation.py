"""Evaluation of a policy: a number of episodes, each counted once, without bias to short ones.

    episodes = evaluate(task, policy, 100, seed=0)
    episodes.returns.mean(), episodes.reasons

Whoever takes the first N episodes that end in a batch prefers short ones. Here it is decided
beforehand how many episodes each environment plays; these are counted, however long they take.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tasks import Task
from superdex.lab.gym.rollouts import GaussianMlpPolicy
from superdex.lab.gym.utils.vector import SceneVectorEnv

__all__ = ["Episodes", "evaluate", "quotas", "require_fit"]

_MAX_ENVS = 1000


@dataclass(frozen=True, eq=False)
class Episodes:
    """N finished episodes, in order of environment, and of time within one."""

    returns: NDArray[np.float64]
    """(N,): sums of rewards."""
    lengths: NDArray[np.int64]
    """(N,): control steps."""
    reasons: tuple[str, ...]
    """(N,): why each ended."""

    def count_reasons(self) -> list[tuple[str, int]]:
        """Reasons and how many episodes ended by each, the most frequent first."""
        return Counter(self.reasons).most_common()


def evaluate(task: Task, policy: GaussianMlpPolicy, num_episodes: int, *, seed: int = 0) -> Episodes:
    """Let the policy play `num_episodes` episodes in a native batch; its actions are clipped to their bounds.

    There is an environment for each episode, but no more than 1000.

    Args:
        task: what to play.
        policy: acts; it is not changed, so its normaliser stands still.
        num_episodes: N, at least 1.
        seed: environment i is reset with the seed `seed + i`.

    Raises:
        UserError: if the task's episodes have no step limit: evaluation might never end.
    """
    _require_step_limit(task)
    due = quotas(num_episodes, _MAX_ENVS)
    finished: list[list[tuple[float, int, str]]] = [[] for _ in due]
    returns, lengths = np.zeros(len(due)), np.zeros(len(due), np.int64)
    everyone, step = slice(0, len(due)), 0
    with SceneVectorEnv(task.factories(len(due)), autoreset_mode=AutoresetMode.SAME_STEP) as envs:
        observation, _ = envs.reset(seed=seed)
        while any(len(played) < quota for played, quota in zip(finished, due, strict=True)):
            actions = policy.bounded(policy(observation, step, everyone))
            observation, reward, terminated, truncated, info = envs.step(actions)
            returns += reward
            lengths += 1
            step += 1
            for row in np.flatnonzero(terminated | truncated).tolist():
                if len(finished[row]) < due[row]:
                    finished[row].append((returns[row], lengths[row], _reason(info["final_info"], row)))
                returns[row] = lengths[row] = 0
    flat = [episode for played in finished for episode in played]
    return Episodes(
        np.array([episode[0] for episode in flat]),
        np.array([episode[1] for episode in flat]),
        tuple(episode[2] for episode in flat),
    )


def quotas(num_episodes: int, max_envs: int) -> list[int]:
    """How many of the episodes each environment plays: as equal as can be, and all together `num_episodes`."""
    num_envs = min(max_envs, num_episodes)
    each, extra = divmod(num_episodes, num_envs)
    return [each + (index < extra) for index in range(num_envs)]


def require_fit(task: Task, policy: GaussianMlpPolicy) -> None:
    """Raise UserError unless the policy takes the task's observations and gives its actions."""
    env = task.make()
    given, wanted = math.prod(env.observation_space.shape), env.action_space.shape
    env.close()
    taken = len(policy.layers[0][0])
    if (given, wanted) != (taken, policy.low.shape):
        raise UserError(
            f"The policy does not fit {task.name} any more: it takes {taken} observed values and gives actions of shape"
            f" {policy.low.shape}, the task gives {given} and takes actions of shape {wanted}."
        )


def _require_step_limit(task: Task) -> None:
    """Raise UserError if episodes of the task may go on forever."""
    if task.env_class.Cfg.make(task.fields).steps_per_episode < 1:
        raise UserError(
            f"Episodes of {task.name} have no step limit (steps_per_episode), so they might never end. Ask for none of"
            " them, or for a task with a limit."
        )


def _reason(final_info: dict[str, Any], row: int) -> str:
    return str(final_info["terminated_reason"][row] or final_info["truncated_reason"][row])
