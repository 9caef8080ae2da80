"""A vector environment as rsl-rl's runners take it.

    envs = SceneVectorEnv(AntEnv, num_envs=1024, autoreset_mode=AutoresetMode.SAME_STEP)
    runner = OnPolicyRunner(RslRlVecEnv(envs), config, log_dir="runs/ant")
    runner.learn(300, init_at_random_ep_len=True)

The observation is the one group "policy": say `"obs_groups": {"actor": ["policy"], "critic": ["policy"]}`.
Tensors are float32, on the CPU, and the caller's to keep.

What rsl-rl does at the end of an episode is its own choice. To a step in `time_outs`
it adds the value of the state *before* that step, discounted, not that of the true
last observation, which it has no place for.

Needs rsl-rl: `pip install "superdex-gym[guests]"`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from superdex.lab.gym.rollouts.collecting import require_same_step
from superdex.lab.gym.vector.base import BatchedVectorEnv

try:
    import torch
except ImportError as error:
    raise ImportError('The rsl-rl adapter needs rsl-rl: pip install "superdex-gym[guests]"') from error

__all__ = ["RslRlVecEnv"]

_GROUP = "policy"


class RslRlVecEnv:
    """rsl-rl's `VecEnv` over one of our vector environments in SAME_STEP mode.

    Args:
        envs: environments with flat (1-D) spaces. They are reset here, and belong to the caller, who closes them.
        seed: of the first reset.

    Raises:
        ValueError: if the autoreset mode or a space does not fit.
        ImportError: if rsl-rl is not installed.
    """

    device = "cpu"
    """Where all tensors are."""

    def __init__(self, envs: BatchedVectorEnv, seed: int | None = None) -> None:
        _require_fit(envs)
        self._tensor_dict = _import_tensor_dict()
        self.envs = envs
        self.num_envs: int = envs.num_envs
        self.num_actions: int = envs.single_action_space.shape[0]
        self._observation, _ = envs.reset(seed=seed)
        self._episode_steps = torch.zeros(self.num_envs, dtype=torch.long)

    @cached_property
    def cfg(self) -> Any:
        """The configuration of environment 0, which rsl-rl's loggers store; an empty dict if it has none."""
        (known,) = self.envs.call_on([0], "has_wrapper_attr", "cfg")
        return self.envs.call_on([0], "get_wrapper_attr", "cfg")[0] if known else {}

    @property
    def max_episode_length(self) -> int:
        """The task's `steps_per_episode`. rsl-rl asks for it to draw random points of the time limit.

        Raises:
            ValueError: if the task has no such limit.
        """
        limit = getattr(self.cfg, "steps_per_episode", -1)
        if limit < 1:
            raise ValueError(
                "Episodes cannot begin at random points of a time limit that the task does not have. Give it one"
                " (steps_per_episode=1000), or call learn(..., init_at_random_ep_len=False)."
            )
        return limit

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """(num_envs,) int64 control steps of the running episodes, a copy.

        Setting it moves the environments within their episodes, so that their time limits are
        reached at different steps. `learn(..., init_at_random_ep_len=True)` does that.
        """
        return self._episode_steps.clone()

    @episode_length_buf.setter
    def episode_length_buf(self, steps: torch.Tensor) -> None:
        counts = steps.cpu().numpy()
        if counts.shape != (self.num_envs,) or counts.dtype.kind != "i" or (counts < 0).any():
            raise ValueError(
                f"episode_length_buf takes {self.num_envs} integers from 0, one per environment, "
                f"got {counts.dtype} of shape {counts.shape}, {counts!r}."
            )
        state = self.envs.capture_state()
        sections = tuple(
            replace(section, arrays=section.arrays | {"episode_steps": counts[section.environments].astype(np.int64)})
            for section in state.sections
        )
        self.envs.restore_state(replace(state, sections=sections))
        self._episode_steps = torch.as_tensor(counts.copy())

    def get_observations(self) -> Any:
        """The observations that were returned last: a TensorDict with "policy" (num_envs, n)."""
        policy = torch.tensor(self._observation, dtype=torch.float32)
        return self._tensor_dict({_GROUP: policy}, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step with `actions` (num_envs, num_actions), clipped here: not every task does it.

        Returns:
            Observations as in `get_observations`, of the next episode where one ended; rewards (num_envs,) float32;
            dones (num_envs,) int64; and extras, with "time_outs" (num_envs,) bool: truncated and not terminated.
        """
        space = self.envs.single_action_space
        result = self.envs.step(np.clip(actions.detach().cpu().numpy(), space.low, space.high))
        self._observation = result.observation
        dones = torch.as_tensor(result.terminated | result.truncated)
        self._episode_steps = torch.where(dones, 0, self._episode_steps + 1)
        extras = {"time_outs": torch.as_tensor(result.truncated & ~result.terminated)}
        return self.get_observations(), torch.tensor(result.reward, dtype=torch.float32), dones.long(), extras


def _require_fit(envs: BatchedVectorEnv) -> None:
    require_same_step(envs, "RslRlVecEnv")
    for kind, space in (("observation", envs.single_observation_space), ("action", envs.single_action_space)):
        if len(space.shape) != 1:
            raise ValueError(f"rsl-rl's models take flat spaces, but the {kind} space has shape {space.shape}.")


def _import_tensor_dict() -> Any:
    try:
        return import_module("tensordict").TensorDict
    except ImportError as error:
        raise ImportError('The rsl-rl adapter needs rsl-rl: pip install "superdex-gym[guests]"') from error
