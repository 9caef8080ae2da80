"""How each task is trained: a table of settings, every one of which has a flag.

    recipe = recipe_for(find_task("CartPole"))           # a task without a recipe of its own gets the default
    recipe = recipe.with_settings({"num_envs": 500})     # checked again

Registered tasks of ours are in the table. A class of one's own says how it differs from the default
as data: `hyperparameters = {"gamma": 0.98, "total_steps": 1_000_000}`.

What suits CPUs: many environments, small networks, a few epochs and
few large minibatches, so that learning takes no longer than stepping does.
"""

from __future__ import annotations

from collections.abc import Mapping

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.tasks import Task
from superdex.lab.apps.train.recipe import Recipe

__all__ = ["RECIPES", "recipe_for"]

_CART_POLE = Recipe(total_steps=2_000_000, n_steps=32, n_minibatches=2, learning_rate=1e-3)

# by the task's name, without namespace and version
RECIPES: dict[str, Recipe] = {
    # at full noise, actions cost more than surviving pays, and it would first learn to fall
    "AntNoContact": Recipe(total_steps=15_000_000, log_std_init=-1.0),
    "CartPole": _CART_POLE,
    "CartPoleActuateOnPole": _CART_POLE,
    # what a stride is worth shows within a second (20 steps); with the longer horizon, more noise or ReLU it settles
    # for a slower gait
    "HalfCheetah": Recipe(
        total_steps=50_000_000,
        gamma=0.98,
        log_std_init=-1.0,
        n_epochs=5,
        n_minibatches=8,
        learning_rate=3e-4,
        activation="tanh",
    ),
}
_DEFAULT = Recipe()


def recipe_for(task: Task) -> Recipe:
    """The recipe of one of our registered tasks, or the default one with what the task's class says.

    Raises:
        UserError: if the `hyperparameters` of the class are no settings, or impossible ones.
    """
    if task.is_ours:
        return RECIPES.get(task.name, _DEFAULT)
    own, name = task.env_class.hyperparameters, f"{task.env_class.__name__}.hyperparameters"
    if not isinstance(own, Mapping):
        raise UserError(f"{name} must be a dict of settings, as in {{'gamma': 0.98}}, got {own!r}.")
    try:
        return _DEFAULT.with_settings(own)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
