"""Our vector environments for Stable-Baselines3.

    envs = SceneVectorEnv(HalfCheetahEnv, num_envs=256, autoreset_mode="SameStep")
    model = PPO("MlpPolicy", Sb3VecEnv(envs, normalize_observations=True), n_steps=64, batch_size=4096)
    model.learn(1_000_000)

Rewards, observations, `dones` and the infos of episodes that end are what
`DummyVecEnv` gives over the same environments, each wrapped in a `Monitor`: the
mean return is in the library's own logs. Two things differ, for speed:

- `infos` of environments whose episode goes on are one shared empty dict that
  cannot be written to. Infos of single steps are to be had from `envs` itself.
- Observations can be normalised here, over the whole batch at once, as
  `VecNormalize` does it: statistics take in every step while `training` is True.
  This is for learners that use each rollout once: PPO, A2C. Those with a replay
  buffer (SAC, TD3, DDPG) keep observations as they were and normalise what they
  draw by the present statistics, for which they look for a `VecNormalize`. So
  give them one: `VecNormalize(Sb3VecEnv(envs))`. With `normalize_observations`
  they would mix observations of old and new scales.

A policy acts on the statistics that it was trained with. The library cannot tell
these apart, so environments to evaluate in are given those of the training:

    evaluated = Sb3VecEnv(other_envs, normalizer=training.normalizer, training=False)
    evaluate_policy(model, evaluated)
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from superdex.lab.gym.rollouts import EpisodeStatistics, ObservationNormalizer, Policy, Rollout, collect
from superdex.lab.gym.rollouts.collecting import final_observations, lost_episodes, require_same_step
from superdex.lab.gym.vector.base import BatchedVectorEnv

try:
    from stable_baselines3.common.env_util import is_wrapped
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise ImportError(
        'The Stable-Baselines3 adapter needs stable-baselines3: pip install "superdex-gym[train]"'
    ) from error

__all__ = ["Sb3VecEnv"]

_Indices = None | int | Iterable[int]


class _NoInfo(dict[str, Any]):
    """The info of every environment whose episode goes on; shared, so nobody may write to it."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("This info is shared by all environments whose episode goes on: copy it to change it.")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = _refuse  # type: ignore[assignment]


_NO_INFO = _NoInfo()


class Sb3VecEnv(VecEnv):
    """One of our vector environments, in SAME_STEP mode, as a Stable-Baselines3 `VecEnv`."""

    def __init__(
        self,
        envs: BatchedVectorEnv,
        *,
        normalize_observations: bool = False,
        clip_observations: float = 10.0,
        normalizer: ObservationNormalizer | None = None,
        training: bool = True,
    ) -> None:
        """Take over `envs`, which `close` closes.

        Args:
            envs: made with `autoreset_mode=AutoresetMode.SAME_STEP`.
            normalize_observations: whether to bring observations to mean 0 and variance 1, in float32; for
                on-policy learners only, see the module's docstring.
            clip_observations: largest size of a normalised observation.
            normalizer: normalises observations instead of a new one, with its own `clip`: that of another
                adapter, which shares it from now on.
            training: whether steps and resets update the statistics of normalisation (in `BatchPPO`: rollouts).

        Raises:
            ValueError: if `envs` resets in another mode, or `normalizer` is of other observations.
        """
        require_same_step(envs, "Sb3VecEnv")
        self.envs = envs
        self.training = training
        """Whether the statistics of normalisation still learn; may be changed at any time."""
        self._held = False
        space = envs.single_observation_space
        if normalizer is None and normalize_observations:
            normalizer = ObservationNormalizer(space.shape, clip=clip_observations)
        self.normalizer = normalizer
        """What normalises observations, if anything does."""
        if normalizer is not None:
            if normalizer.mean.shape != space.shape:
                raise ValueError(
                    f"normalizer is of observations of shape {normalizer.mean.shape}, these are {space.shape}:"
                    " share it between environments of the same task."
                )
            space = Box(-normalizer.clip, normalizer.clip, space.shape, np.float32)
        self.last_observation: np.ndarray | None = None
        """(num_envs, *observation_shape): the last, as the environments gave it; None before the first reset."""
        self._actions: np.ndarray | None = None
        self._episodes = EpisodeStatistics(envs.num_envs, window=1)
        self._start = time.time()
        super().__init__(envs.num_envs, space, envs.single_action_space)

    def reset(self) -> np.ndarray:
        """Begin new episodes; `seed` and `set_options` before it count once."""
        seeds = None if self._seeds[0] is None else self._seeds
        observation, info = self.envs.reset(seed=seeds, options=self._common_options())
        self._reset_seeds()
        self._reset_options()
        self._episodes.forget_running()
        self.reset_infos = [_row_of(info, row) for row in range(self.num_envs)]
        return self._processed(observation)

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions (num_envs, *action_shape) for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step with the actions of `step_async`: observations, rewards, dones, infos."""
        if self._actions is None:
            raise RuntimeError("Call step_async(actions) before step_wait().")
        actions, self._actions = self._actions, None
        observation, rewards, terminated, truncated, info = self.envs.step(actions)
        observation = self._processed(observation)
        dones = terminated | truncated
        infos: list[dict[str, Any]] = [_NO_INFO] * self.num_envs
        rows = np.flatnonzero(dones)
        lost = np.zeros_like(dones)
        if rows.size:
            lost[rows] = lost_episodes(info, rows)
            finals = self._normalized(final_observations(info, rows))
            for row, final in zip(rows.tolist(), finals, strict=True):
                infos[row] = {
                    **_row_of(info["final_info"], row),
                    "TimeLimit.truncated": bool(truncated[row] and not terminated[row]),
                    "terminal_observation": final,
                }
                self.reset_infos[row] = _row_of(info, row, without=("final_obs", "final_info"))
        finished = self._episodes.step(rewards, dones, lost)
        seconds = round(time.time() - self._start, 6)
        for row, episode_return, length in zip(np.flatnonzero(dones & ~lost), *finished, strict=True):
            infos[row]["episode"] = {"r": round(float(episode_return), 6), "l": int(length), "t": seconds}
        return observation, rewards.astype(np.float32), dones, infos

    def collect(self, policy: Policy, num_steps: int, *, first_step: int = 0) -> Rollout:
        """`num_steps` steps with the policy's actions, see `superdex.lab.gym.rollouts.collect`.

        Observations are as the environments gave them, and the statistics of normalisation are left alone.
        Environments with a `collect` of their own (`RayVectorEnv`, where the policy travels) do it themselves.

        Raises:
            RuntimeError: before the first reset.
        """
        if self.last_observation is None:
            raise RuntimeError("Call reset() before collect().")
        own = getattr(self.envs, "collect", None)
        if own is not None:
            rollout = own(policy, num_steps, first_step=first_step)
        else:
            rollout = collect(self.envs, policy, num_steps, observation=self.last_observation, first_step=first_step)
        self.last_observation = rollout.last_observation
        self._episodes.update(rollout)
        return rollout

    @contextmanager
    def held_statistics(self) -> Iterator[None]:
        """Within the block, steps and resets leave the statistics of normalisation alone."""
        before, self._held = self._held, True
        try:
            yield
        finally:
            self._held = before

    def save_normalizer(self, path: str | Path) -> None:
        """Write the statistics of normalisation as an `.npz` file; it belongs to the policy."""
        np.savez(path, **self._require_normalizer().state())  # type: ignore[arg-type]

    def load_normalizer(self, path: str | Path) -> None:
        """Read what `save_normalizer` wrote."""
        with np.load(path) as state:
            self._require_normalizer().load_state(state)

    def get_attr(self, attr_name: str, indices: _Indices = None) -> list[Any]:
        """The attribute of the environments, or of those at `indices`; a method is not called."""
        return list(self.envs.call_on(self._chosen(indices), "get_wrapper_attr", attr_name))

    def has_attr(self, attr_name: str) -> bool:
        """Whether all environments have the attribute."""
        return all(self.envs.call("has_wrapper_attr", attr_name))

    def set_attr(self, attr_name: str, value: Any, indices: _Indices = None) -> None:
        """Set the attribute of the environments, or of those at `indices`, to `value`."""
        if indices is None:
            values = [value] * self.num_envs
        else:
            values = self.get_attr(attr_name)
            for index in self._get_indices(indices):
                values[index] = value
        self.envs.set_attr(attr_name, values)

    def env_method(self, method_name: str, *method_args: Any, indices: _Indices = None, **method_kwargs: Any) -> list:
        """What the method returns for each environment, or for each at `indices`, wherever these are."""
        return list(self.envs.call_on(self._chosen(indices), method_name, *method_args, **method_kwargs))

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: _Indices = None) -> list[bool]:
        """Whether environments are wrapped by the class; by `Monitor`, they all are in effect."""
        if issubclass(wrapper_class, Monitor):
            return [True for _ in self._get_indices(indices)]
        envs = getattr(self.envs, "envs", None)
        if envs is None:
            raise NotImplementedError(
                f"env_is_wrapped({wrapper_class.__name__}) looks at environments themselves, but those of"
                f" {type(self.envs).__name__} live in other processes."
            )
        return [is_wrapped(envs[index], wrapper_class) for index in self._get_indices(indices)]

    def get_images(self) -> Sequence[np.ndarray | None]:
        """The frames of all environments; None for each unless they were made with `render_mode="rgb_array"`."""
        if self.render_mode != "rgb_array":
            warnings.warn(
                f"Frames need environments made with render_mode='rgb_array', these have {self.render_mode!r}.",
                stacklevel=2,
            )
            return [None] * self.num_envs
        return list(self.envs.render())

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()

    def _common_options(self) -> dict[str, Any] | None:
        first = self._options[0]
        if any(options != first for options in self._options):
            raise ValueError("set_options() takes one dict for all environments, or a list of equal ones.")
        return first or None

    def _processed(self, observation: np.ndarray) -> np.ndarray:
        """A step's or reset's observations as the learner gets them; the statistics take them in."""
        if not self.envs.copy:
            observation = observation.copy()  # the learner keeps it across the next step, which overwrites it
        self.last_observation = observation
        if self.normalizer is not None and self.training and not self._held:
            self.normalizer.update(observation)
        return self._normalized(observation)

    def _normalized(self, observation: np.ndarray) -> np.ndarray:
        return observation if self.normalizer is None else self.normalizer.normalize(observation)

    def _require_normalizer(self) -> ObservationNormalizer:
        if self.normalizer is None:
            raise ValueError("There are no statistics: make the Sb3VecEnv with normalize_observations=True.")
        return self.normalizer

    def _chosen(self, indices: _Indices) -> list[int] | None:
        """The environments at `indices`, which the library counts from the end where they are negative."""
        return None if indices is None else [range(self.num_envs)[index] for index in self._get_indices(indices)]


def _row_of(info: Mapping[str, Any], row: int, without: Sequence[str] = ()) -> dict[str, Any]:
    """One environment's info out of those of all."""
    single: dict[str, Any] = {}
    for key, values in info.items():
        mask = info.get(f"_{key}")
        if mask is not None and mask[row] and key not in without:
            single[key] = _row_of(values, row) if isinstance(values, dict) else values[row]
    return single
