"""The learner of a run: made from a configuration, written to and read from checkpoints.

Imports torch and Stable-Baselines3, so it is itself imported only when training begins.
"""

from __future__ import annotations

import math
import operator
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from stable_baselines3.common.logger import Logger

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.train.checkpoints import Checkpoint, CheckpointRecord
from superdex.lab.apps.train.config import TrainConfig
from superdex.lab.gym.adapters.ppo import BatchPPO
from superdex.lab.gym.adapters.sb3 import Sb3VecEnv
from superdex.lab.gym.envs.env_state import EnvState
from superdex.lab.gym.vector.base import BatchedVectorEnv
from superdex.lab.gym.vector.errors import WorkerError

__all__ = ["learning_threads", "losses", "make_learner", "resume_learner", "write_learner"]

_ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}

# by the column of the progress table: as Stable-Baselines3 calls it, and the sign it gives it
_LOSSES = {
    "policy_loss": ("policy_gradient_loss", 1),
    "value_loss": ("value_loss", 1),
    "entropy": ("entropy_loss", -1),
    "approx_kl": ("approx_kl", 1),
    "clip_fraction": ("clip_fraction", 1),
    "explained_variance": ("explained_variance", 1),
    "action_std": ("std", 1),
    "learning_rate": ("learning_rate", 1),
}


@contextmanager
def learning_threads(number: int) -> Iterator[None]:
    """Let torch compute on so many threads within the block, and on as many as before after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def make_learner(config: TrainConfig, envs: BatchedVectorEnv) -> BatchPPO:
    """A learner that knows nothing yet, on `envs`, which are not reset yet."""
    recipe = config.recipe
    learner = BatchPPO(
        "MlpPolicy",
        _adapted(config, envs),
        learning_rate=_learning_rate(config),
        n_steps=recipe.n_steps,
        batch_size=recipe.batch_size,
        n_epochs=recipe.n_epochs,
        gamma=recipe.gamma,
        gae_lambda=recipe.gae_lambda,
        clip_range=recipe.clip_range,
        ent_coef=recipe.ent_coef,
        vf_coef=recipe.vf_coef,
        max_grad_norm=recipe.max_grad_norm,
        target_kl=recipe.target_kl or None,
        normalize_rewards=recipe.normalize_rewards,
        policy_kwargs={
            "net_arch": list(recipe.hidden_sizes),
            "activation_fn": _ACTIVATIONS[recipe.activation],
            "log_std_init": recipe.log_std_init,
        },
        seed=config.seed,
        device="cpu",
    )
    learner.set_logger(Logger(None, []))  # the run keeps its own log
    return learner


def resume_learner(
    config: TrainConfig, envs: BatchedVectorEnv, checkpoint: Checkpoint
) -> tuple[BatchPPO, CheckpointRecord]:
    """The learner of a checkpoint, on `envs`, which continue from it, too; and the checkpoint's record.

    Raises:
        UserError: if the checkpoint is damaged or does not fit the task any more.
        WorkerError: if a worker fails meanwhile, which is no fault of the checkpoint.
    """
    try:
        record = checkpoint.read_record()
        envs.restore_state(EnvState.load(checkpoint.environments))
        learner = BatchPPO.load(checkpoint.learner, env=_adapted(config, envs), device="cpu")
        with checkpoint.training.open("rb") as stream, np.load(stream, allow_pickle=False) as state:
            learner.load_training_state(dict(state))
    except WorkerError:  # a RuntimeError, too
        raise
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
        raise UserError(
            f"Training cannot go on from {checkpoint.path}: {error} If it is damaged, remove that directory,"
            " and --resume takes the checkpoint before."
        ) from error
    learner.set_logger(Logger(None, []))
    return learner, record


def write_learner(learner: BatchPPO, environments: EnvState | None, checkpoint: Checkpoint) -> None:
    """Write what `resume_learner` needs into the directory of a checkpoint; without `environments` it cannot resume."""
    learner.save(checkpoint.learner)
    if learner.adapter.normalizer is not None:
        learner.adapter.save_normalizer(checkpoint.normalizer)
    if environments is None:
        return
    environments.save(checkpoint.environments)
    np.savez(checkpoint.training, **learner.training_state())  # type: ignore[arg-type]


def losses(learner: BatchPPO) -> dict[str, float]:
    """Figures of the last update, by the columns of the progress table."""
    logged = learner.logger.name_to_value
    return {name: sign * float(logged.get(f"train/{key}", math.nan)) for name, (key, sign) in _LOSSES.items()}


def _learning_rate(config: TrainConfig) -> float | Callable[[float], float]:
    """The learning rate, or what it is for the share of training that remains as an iteration begins."""
    rate = config.recipe.learning_rate
    return partial(operator.mul, rate) if config.recipe.schedule == "linear" else rate


def _adapted(config: TrainConfig, envs: BatchedVectorEnv) -> Sb3VecEnv:
    return Sb3VecEnv(envs, normalize_observations=config.recipe.normalize_observations)
