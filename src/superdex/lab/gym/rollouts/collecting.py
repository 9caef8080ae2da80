"""Collecting rollouts: a policy acts in a vector environment for some steps.

A step's observations, actions and results are copied once, into the arrays of the whole rollout, of which the
policy sees one row at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from superdex.lab.gym.rollouts.rollout import Policy, Rollout
from superdex.lab.gym.rollouts.soundness import wrong_observation
from superdex.lab.gym.vector.base import BatchedVectorEnv
from superdex.lab.gym.vector.infos import FINAL_OBS
from superdex.lab.gym.vector.recovery import RESTARTED

__all__ = [
    "NonFiniteActionsError",
    "NonFiniteObservationError",
    "collect",
    "final_observations",
    "lost_episodes",
    "require_same_step",
]


class NonFiniteActionsError(ValueError):
    """A policy gave NaN or infinity for observations that were sound."""


class NonFiniteObservationError(ValueError):
    """A policy gave NaN or infinity because it was given an observation that is no number."""


def collect(
    envs: BatchedVectorEnv,
    policy: Policy,
    num_steps: int,
    *,
    observation: np.ndarray,
    first_step: int = 0,
    environments: slice | None = None,
) -> Rollout:
    """Step `envs` for `num_steps` with the policy's actions.

    Args:
        envs: in SAME_STEP mode, in which every step is a true one and the last observation of an
            episode is not lost.
        policy: gives the actions. The environments get them clipped to the action space, the rollout as they are.
        num_steps: at least 1.
        observation: (num_envs, *observation_shape), what the last reset or step of `envs` gave.
        first_step: the number of the first of these steps since training began, for the policy.
        environments: which of all environments `envs` are, for the policy; by default they are all.

    Raises:
        ValueError: if `envs` resets in another mode, an argument does not fit it, or the policy gives
            actions of another shape or dtype. If it gives NaN or infinity, `NonFiniteObservationError` names
            the environment whose observation is to blame, or `NonFiniteActionsError` the rows where no
            observation is. The steps before were taken then.
    """
    require_same_step(envs, "collect()")
    environments = _check_arguments(envs, num_steps, observation, environments)
    shape, space = (num_steps, envs.num_envs), envs.single_action_space
    observations = np.empty((num_steps, *observation.shape), observation.dtype)
    actions = np.empty((*shape, *space.shape), space.dtype)
    rewards = np.empty(shape, np.float32)
    terminated, truncated = np.empty(shape, np.bool_), np.empty(shape, np.bool_)
    finals: list[np.ndarray] = []
    lost: list[NDArray[np.bool_]] = []
    for t in range(num_steps):
        observations[t] = observation
        actions[t] = _checked(policy(observations[t], first_step + t, environments), envs)
        _require_finite(actions[t], observations[t], first_step + t, environments)
        clipped = np.clip(actions[t], space.low, space.high)
        observation, rewards[t], terminated[t], truncated[t], info = envs.step(clipped)
        rows = np.flatnonzero(terminated[t] | truncated[t])
        if rows.size:
            finals.append(final_observations(info, rows))
            lost.append(lost_episodes(info, rows))
    final_steps, final_environments = np.nonzero(terminated | truncated)
    return Rollout(
        observations=observations,
        actions=actions,
        rewards=rewards,
        terminated=terminated,
        truncated=truncated,
        last_observation=np.array(observation),
        final_steps=final_steps,
        final_environments=final_environments,
        final_observations=np.concatenate(finals) if finals else observations[0, :0].copy(),
        final_lost=np.concatenate(lost) if lost else np.zeros(0, np.bool_),
        restarted=np.zeros(envs.num_envs, np.bool_),
    )


def final_observations(info: dict[str, Any], rows: NDArray[np.int64]) -> np.ndarray:
    """(k, *observation_shape): the last observations of the episodes that ended, from the infos of a step."""
    assert info[f"_{FINAL_OBS}"][rows].all()
    return np.stack(info[FINAL_OBS][rows])


def lost_episodes(info: dict[str, Any], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(k,): whether the episodes that ended, from the infos of a step, were lost with the worker that played them."""
    reasons = info["final_info"].get("truncated_reason")
    if reasons is None:
        return np.zeros(len(rows), np.bool_)
    return np.array([isinstance(reason, str) and reason == RESTARTED for reason in reasons[rows]], np.bool_)


def require_same_step(envs: BatchedVectorEnv, user: str) -> None:
    """Raise ValueError unless `envs` reset environments in the step that ends their episode."""
    mode = envs.metadata.get("autoreset_mode")
    if mode is not AutoresetMode.SAME_STEP:
        raise ValueError(
            f"{user} needs a vector environment in SAME_STEP mode, where a step returns the true last observation of"
            f" an episode beside the first of the next, got {mode}. Make it with"
            " autoreset_mode=AutoresetMode.SAME_STEP."
        )


def _check_arguments(
    envs: BatchedVectorEnv, num_steps: int, observation: np.ndarray, environments: slice | None
) -> slice:
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
    if observation.shape != envs.observation_space.shape:
        raise ValueError(
            f"observation must be what the last reset or step gave, of shape {envs.observation_space.shape},"
            f" got shape {observation.shape}."
        )
    if environments is None:
        return slice(0, envs.num_envs)
    if environments.step not in (None, 1) or environments.stop - environments.start != envs.num_envs:
        raise ValueError(
            f"environments must be a slice of {envs.num_envs} rows, as many as there are environments, with start"
            f" and stop, got {environments}."
        )
    return environments


def _checked(actions: Any, envs: BatchedVectorEnv) -> np.ndarray:
    """The policy's `actions`, if they can be put into an array of the action space's dtype."""
    space = envs.action_space
    if not isinstance(actions, np.ndarray) or actions.shape != space.shape:
        got = f"shape {actions.shape}" if isinstance(actions, np.ndarray) else type(actions).__name__
        raise ValueError(f"The policy must give an array of shape {space.shape}, one row per environment, got {got}.")
    if not np.can_cast(actions.dtype, space.dtype, "same_kind"):
        raise ValueError(f"The policy must give actions of dtype {space.dtype}, got {actions.dtype}.")
    return actions


def _require_finite(actions: np.ndarray, observation: np.ndarray, step: int, environments: slice) -> None:
    """Raise unless all actions are finite: about the observations where one of these is no number."""
    if np.isfinite(actions).all():
        return
    if (wrong := wrong_observation(observation, step, environments.start)) is not None:
        raise NonFiniteObservationError(f"{wrong}.")
    bad = np.flatnonzero(~np.isfinite(actions).reshape(len(actions), -1).all(axis=1)) + environments.start
    raise NonFiniteActionsError(
        f"The policy gave NaN or infinity in step {step}, for environments {bad[:10].tolist()}"
        f"{' and others' if len(bad) > 10 else ''}. Their observations are finite: the policy's weights are damaged."
    )
