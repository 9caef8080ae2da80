"""How each task is trained: a table of settings, every one of which has a flag.

    recipe = recipe_for("CartPole")                      # a task without a recipe of its own gets the default
    recipe = replace(recipe, num_envs=500)               # checked again

What suits CPUs: many environments, small ReLU networks, a few epochs and
few large minibatches, so that learning takes no longer than stepping does.
"""

from __future__ import annotations

from superdex.lab.apps.train.recipe import Recipe

__all__ = ["RECIPES", "recipe_for"]

_CART_POLE = Recipe(total_steps=2_000_000, n_steps=32, n_minibatches=2, learning_rate=1e-3)

# by the task's name, without namespace and version
RECIPES: dict[str, Recipe] = {
    # at full noise, actions cost more than surviving pays, and it would first learn to fall
    "AntNoContact": Recipe(total_steps=15_000_000, log_std_init=-1.0),
    "CartPole": _CART_POLE,
    "CartPoleActuateOnPole": _CART_POLE,
    "HalfCheetah": Recipe(total_steps=50_000_000),
}
_DEFAULT = Recipe()


def recipe_for(task_name: str) -> Recipe:
    """The recipe of the task of that name ("CartPole"), or the default one."""
    return RECIPES.get(task_name, _DEFAULT)
