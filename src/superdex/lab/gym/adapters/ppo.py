"""PPO that collects rollouts in large batches: Stable-Baselines3's PPO with another way of stepping.

    adapter = Sb3VecEnv(envs, normalize_observations=True)
    ppo = BatchPPO("MlpPolicy", adapter, n_steps=64, batch_size=4096, n_epochs=3, seed=0)
    for iteration in ppo.iterations(total_timesteps=1_000_000):
        print(ppo.num_timesteps, ppo.statistics.mean_return)

The library's own loop calls its policy, its value function and its bookkeeping
once per step, which costs more than stepping a thousand simple environments.
Here a NumPy copy of the actor acts for a whole rollout (`superdex.lab.gym.rollouts`),
wherever the environments are; values and log-probabilities are computed afterwards,
in few large passes. Then the library's `train()` learns from its own `RolloutBuffer`.

**Ends of episodes.** Where a limit cut an episode off, the reward gets
`gamma * V(s)` of the true last observation `s`; where the task ended it, even
in the same step, it does not.

**Normalisation** is held still during a rollout and updated after it, so all
values that belong together were seen on one scale. With `training=False` the
adapter's statistics are held still altogether.

**Resuming.** `save` writes the policy, the optimiser and the counters;
`training_state` gives everything else that decides the future, except for the
environments (`envs.capture_state`):

    ppo.save("policy.zip"); np.savez("training.npz", **ppo.training_state())
    ...
    ppo = BatchPPO.load("policy.zip", env=adapter)
    ppo.load_training_state(np.load("training.npz"))    # after envs.restore_state(...)
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.buffers import RolloutBuffer
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.type_aliases import MaybeCallback
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise ImportError('BatchPPO needs torch and stable-baselines3: pip install "superdex-gym[train]"') from error

from superdex.lab.gym.adapters.exporting import export_actor
from superdex.lab.gym.adapters.filling import ActorCritic, fill
from superdex.lab.gym.adapters.resuming import Part, captured, restore
from superdex.lab.gym.adapters.sb3 import Sb3VecEnv
from superdex.lab.gym.adapters.soundness import diverged, not_learnable, wrong_policy
from superdex.lab.gym.rollouts import EpisodeStatistics, FinishedEpisodes, GaussianMlpPolicy, RewardScaler, Rollout
from superdex.lab.gym.rollouts.collecting import NonFiniteActionsError, NonFiniteObservationError
from superdex.lab.gym.rollouts.soundness import wrong_rollout

__all__ = ["BatchPPO"]

_NOT_IN_ZIP = ("statistics", "finished", "reward_scaler", "ep_info_buffer", "_last_obs", "_last_episode_starts")
"""What `training_state` has, or what is of one run only."""


class BatchPPO(PPO):
    """See the module's docstring."""

    def __init__(
        self,
        policy: str | type = "MlpPolicy",
        env: Sb3VecEnv | None = None,
        *,
        normalize_rewards: bool = False,
        device: str | torch.device = "cpu",
        **arguments: Any,
    ) -> None:
        """Make the policy, the optimiser and the buffer.

        Args:
            policy: "MlpPolicy" with a Gaussian over `Box` actions, ReLU or Tanh, and nothing shared between
                actor and critic (the library's defaults, apart from `net_arch` and `activation_fn`).
            env: the environments, in their adapter.
            normalize_rewards: whether to divide rewards by the running deviation of the discounted return.
            device: where it learns; small networks are fastest on the CPU.
            **arguments: all others of `stable_baselines3.PPO`.

        Raises:
            ValueError: if the policy is not of that kind, or `env` is not an `Sb3VecEnv`.
        """
        if env is not None and not isinstance(env, Sb3VecEnv):
            raise ValueError(
                f"BatchPPO steps an Sb3VecEnv, got {type(env).__name__}. Put your vector environment in one."
            )
        self.normalize_rewards = normalize_rewards
        self.iteration = 0
        """Finished iterations (a rollout and what was learned from it) since training began."""
        self.control_steps = 0
        """Steps that each environment took since training began."""
        self.stepping_seconds = 0.0
        """Wall time spent stepping environments since training began."""
        self.learning_seconds = 0.0
        """Wall time spent on everything else of its iterations."""
        self.last_stepping_seconds = self.last_learning_seconds = 0.0
        self.noise_seed: int | None = None
        super().__init__(policy, env, device=device, **arguments)  # type: ignore[arg-type] (without one, to predict only)

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.noise_seed is None:
            self.noise_seed = int(np.random.SeedSequence(self.seed).generate_state(1, np.uint64)[0])
        self.statistics = EpisodeStatistics(self.n_envs)
        self.finished = FinishedEpisodes(np.empty(0), np.empty(0, np.int64))
        """The episodes that ended in the last rollout."""
        self.reward_scaler = RewardScaler(self.n_envs, self.gamma) if self.normalize_rewards else None
        export_actor(self.policy, None, 0)  # raises now, not after the first rollout

    @property
    def adapter(self) -> Sb3VecEnv:
        """The environments.

        Raises:
            RuntimeError: if this was loaded without them.
        """
        if not isinstance(self.env, Sb3VecEnv):
            raise RuntimeError("There are no environments: load() takes them as `env`.")
        return self.env

    def actor(self, deterministic: bool = False) -> GaussianMlpPolicy:
        """A NumPy copy of the policy as it is now, which takes observations as the environments give them."""
        assert self.noise_seed is not None
        return export_actor(self.policy, self.adapter.normalizer, self.noise_seed, deterministic)

    def iterations(self, total_timesteps: int, callback: MaybeCallback = None) -> Iterator[int]:
        """Train until `num_timesteps` reaches `total_timesteps`; yields the iteration's number after each update.

        Between two iterations everything is at rest: save, evaluate, or leave the loop. Schedules follow
        `num_timesteps / total_timesteps` at the start of an iteration: the first learns at the full rate and
        the last at a positive one. A resumed training passes the same total. `verbose` and `tensorboard_log`
        show what they show of `learn`, in every iteration.

        Raises:
            TrainingDiverged: (in `adapters.errors`) instead of yielding a policy that is not finite.
        """
        new = self._last_obs is None and not self.num_timesteps  # its log begins a directory, others go on in theirs
        _, callback = self._setup_learn(total_timesteps - self.num_timesteps, callback, new, "PPO")
        callback.on_training_start(locals(), globals())
        try:
            while self.num_timesteps < total_timesteps:
                if not self.collect_rollouts(self.adapter, callback, self.rollout_buffer, self.n_steps):
                    return
                self._update_current_progress_remaining(self.num_timesteps, total_timesteps)
                self.dump_logs(self.iteration + 1)
                self.train()
                yield self.iteration
        finally:
            callback.on_training_end()

    def _setup_learn(self, *args: Any, **kwargs: Any) -> tuple[int, BaseCallback]:
        before = self.adapter.last_observation
        with self.adapter.held_statistics():  # they take in whole rollouts, of which a reset's observation is part
            result = super()._setup_learn(*args, **kwargs)
        if self.adapter.last_observation is not before:
            self._begin_episodes()
        return result

    def _begin_episodes(self) -> None:
        """Forget the episodes that were running: the environments were reset."""
        self._last_obs = self.adapter.last_observation  # not normalised, unlike what reset() returned
        self._last_episode_starts = np.ones(self.n_envs, np.bool_)
        self.statistics.forget_running()
        if self.reward_scaler is not None:
            self.reward_scaler.forget_running()

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        start = num_timesteps - self.n_steps * self.n_envs  # of the iteration; its rollout is counted by now
        self._current_progress_remaining = min(max(1 - start / total_timesteps, 0.0), 1.0)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Fill the buffer with a rollout; False if a callback wants to stop.

        Callbacks are told of all its steps once it is complete, one `on_step` for each; their `locals`
        have the `rollout`, and the `rewards` and `dones` of the step. Where one stops training, nothing is
        learned from the rollout, but everything has taken it in: training can go on from there.
        """
        self.policy.set_training_mode(False)
        callback.on_rollout_start()
        if self._last_obs is not self.adapter.last_observation:  # somebody reset the adapter
            self._begin_episodes()
        starts = self._last_episode_starts
        assert starts is not None
        start = time.perf_counter()
        try:
            rollout = self.adapter.collect(self.actor(), n_rollout_steps, first_step=self.control_steps)
        except NonFiniteObservationError as error:
            raise not_learnable(self.num_timesteps, str(error).rstrip(".")) from error
        except NonFiniteActionsError as error:
            raise diverged(self.num_timesteps, str(error).rstrip(".")) from error
        self.last_stepping_seconds = time.perf_counter() - start
        self.stepping_seconds += self.last_stepping_seconds
        self.last_learning_seconds = 0.0
        with self._learning_clock():
            self.control_steps += n_rollout_steps
            self._last_obs = rollout.last_observation
            self._last_episode_starts = rollout.terminated[-1] | rollout.truncated[-1]
            self.finished = self.statistics.update(rollout)
            assert self.ep_info_buffer is not None
            self.ep_info_buffer.extend({"r": float(r), "l": int(n)} for r, n in zip(*self.finished, strict=True))
            goes_on = self._tell(callback, rollout)
            self._fill(rollout_buffer, rollout, starts)
            if self.adapter.normalizer is not None and self.adapter.training:
                self.adapter.normalizer.update(rollout.observations)
            if goes_on:
                callback.on_rollout_end()
        return goes_on

    def train(self) -> None:
        """Learn from the buffer.

        Raises:
            TrainingDiverged: if the loss or a parameter is not finite afterwards.
        """
        with self._learning_clock():
            try:
                super().train()
            except ValueError as error:  # what torch's distributions raise on NaN
                raise diverged(self.num_timesteps, str(error).splitlines()[0]) from error
            assert isinstance(self._last_obs, np.ndarray)
            seen = ActorCritic(self.policy, self.adapter.normalizer).normalized(self._last_obs)
            if wrong := wrong_policy(self.policy, seen, self.logger.name_to_value["train/loss"]):
                raise diverged(self.num_timesteps, wrong)
            self.iteration += 1

    @contextmanager
    def _learning_clock(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            self.last_learning_seconds += seconds
            self.learning_seconds += seconds

    def _tell(self, callback: BaseCallback, rollout: Rollout) -> bool:
        """Call back for each step until a callback wants to stop, which False says; all steps count in any case."""
        end = self.num_timesteps + rollout.rewards.size
        for rewards, dones in zip(rollout.rewards, rollout.terminated | rollout.truncated, strict=True):
            self.num_timesteps += self.n_envs
            callback.update_locals({"self": self, "rollout": rollout, "rewards": rewards, "dones": dones})
            if not callback.on_step():
                self.num_timesteps = end
                return False
        return True

    def _fill(self, buffer: RolloutBuffer, rollout: Rollout, starts: NDArray[np.bool_]) -> None:
        if wrong := wrong_rollout(rollout, self.control_steps - rollout.num_steps):
            raise not_learnable(self.num_timesteps, wrong)
        scaler = self.reward_scaler
        rewards = rollout.rewards if scaler is None else scaler.scale(rollout)
        fill(buffer, rollout, ActorCritic(self.policy, self.adapter.normalizer), rewards, starts)
        if not np.isfinite(buffer.advantages).all():
            raise diverged(self.num_timesteps, "value estimates hold NaN or infinity")

    def training_state(self) -> dict[str, np.ndarray]:
        """What decides the future beside `save()` and the environments' state, as plain arrays for `np.savez`."""
        if self._last_obs is None:
            raise RuntimeError("There is nothing to resume before the first iteration.")
        starts = np.array(self._last_episode_starts)
        return {"last_observation": np.array(self._last_obs), "last_episode_starts": starts, **captured(self._parts())}

    def load_training_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a `training_state()`, after `load()` and the environments' `restore_state()`.

        Raises:
            ValueError: if it is of other environments, or normalises what this does not.
            KeyError: if it is not complete. Nothing has changed then, either.
        """
        observation, starts = np.array(state["last_observation"]), np.array(state["last_episode_starts"])
        shape = self.adapter.envs.observation_space.shape
        if observation.shape != shape or starts.shape != shape[:1]:
            raise ValueError(f"The state is of observations of shape {observation.shape}, these are of shape {shape}.")
        restore(self._parts(), state)
        self.adapter.last_observation = self._last_obs = observation
        self._last_episode_starts = starts

    def _parts(self) -> dict[str, Part]:
        """What keeps state of its own."""
        parts = {
            "statistics": self.statistics,
            "normalizer": self.adapter.normalizer,
            "reward_scaler": self.reward_scaler,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), *_NOT_IN_ZIP]
