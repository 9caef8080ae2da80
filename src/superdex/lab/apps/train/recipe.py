"""The settings of PPO for a task, and a flag for each of them.

A `Recipe` is checked when it is made. `RecipeOptions` is the same with None for "no flag given".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, make_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import tyro

from superdex.lab.apps.checking import real, require, require_known, whole
from superdex.lab.apps.counts import Count, Counts, Real
from superdex.lab.apps.errors import UserError

__all__ = ["Recipe", "RecipeOptions", "plain_settings"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of PPO for a task; the names are those of Stable-Baselines3 where it has one.

    Raises:
        UserError: if a value is impossible; the message names the flag.
    """

    num_envs: int = 256
    """Environments that step together."""
    total_steps: int = 10_000_000
    """Control steps of training, summed over the environments; rounded up to whole iterations."""
    n_steps: int = 64
    """Steps of each environment in an iteration, between two updates of the policy."""
    n_epochs: int = 4
    """Passes over an iteration's data."""
    n_minibatches: int = 4
    """Minibatches in a pass; divides the iteration's num_envs x n_steps steps."""
    learning_rate: float = 5e-4
    """Step size of the optimiser (Adam)."""
    schedule: Literal["constant", "linear"] = "linear"
    """Course of the learning rate: constant, or linearly to 0 at the last step."""
    gamma: float = 0.99
    """Discount factor per control step."""
    gae_lambda: float = 0.95
    """Trade-off between bias (0) and variance (1) of advantage estimates."""
    clip_range: float = 0.2
    """How far the probability ratio of an action may move from 1 in an iteration."""
    target_kl: float = 0.0
    """KL divergence from the old policy at which an iteration's passes end early; 0 for no limit."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus in the loss."""
    vf_coef: float = 0.5
    """Weight of the value function's error in the loss."""
    max_grad_norm: float = 0.5
    """Limit to the norm of the gradient."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Units in each hidden layer of the actor, and of the critic."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation of the hidden layers."""
    log_std_init: float = 0.0
    """Logarithm of the action noise's standard deviation at the start."""
    normalize_observations: bool = True
    """Whether observations are shifted and scaled by their running mean and standard deviation."""
    normalize_rewards: bool = True
    """Whether rewards are divided by the running deviation of the discounted return, and clipped to 10 of it."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(Recipe).items():
            object.__setattr__(self, name, _typed(name, hint, getattr(self, name)))
        for name in ("num_envs", "total_steps", "n_steps", "n_epochs", "n_minibatches"):
            require(getattr(self, name) >= 1, name, "must be at least 1", getattr(self, name))
        for name in ("learning_rate", "clip_range", "max_grad_norm"):
            require(0 < getattr(self, name) < math.inf, name, "must be positive and finite", getattr(self, name))
        for name in ("gamma", "gae_lambda"):
            require(0 <= getattr(self, name) <= 1, name, "must be from 0 to 1", getattr(self, name))
        for name in ("ent_coef", "vf_coef", "target_kl"):
            require(0 <= getattr(self, name) < math.inf, name, "must be finite and not negative", getattr(self, name))
        require(math.isfinite(self.log_std_init), "log_std_init", "must be finite", self.log_std_init)
        sizes = " ".join(map(str, self.hidden_sizes)) or "none"
        positive = bool(self.hidden_sizes) and min(self.hidden_sizes) >= 1
        require(positive, "hidden_sizes", "must be at least 1 each", sizes)
        if self.steps_per_iteration % self.n_minibatches or self.batch_size < 2:
            raise UserError(
                f"--n_minibatches must divide the {self.steps_per_iteration:,} steps of an iteration ({self.num_envs:,}"
                f" environments x {self.n_steps:,} steps) into parts of at least 2, got {self.n_minibatches:,}."
            )

    def with_settings(self, settings: Mapping[str, Any]) -> Recipe:
        """This recipe with some settings changed.

        Raises:
            UserError: if there is no setting of a name, or a value is impossible; the message names the flag.
        """
        require_known("setting", settings, [each.name for each in fields(Recipe)])
        return replace(self, **settings)

    @property
    def steps_per_iteration(self) -> int:
        """Control steps of all environments between two updates of the policy."""
        return self.num_envs * self.n_steps

    @property
    def batch_size(self) -> int:
        """Control steps in a minibatch."""
        return self.steps_per_iteration // self.n_minibatches


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a recipe, by name, as plain data of their types: NumPy's become Python's, and 1e6 a whole number.

    Raises:
        UserError: if a value is of another type; the message names the flag.
    """
    hints = get_type_hints(Recipe)
    return {name: _typed(name, hints[name], value) for name, value in settings.items()}


def _typed(name: str, hint: Any, value: Any) -> Any:
    """`value` as plain data of the type `hint`, which a setting has."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if hint is int:
        return whole(name, value)
    if hint is float:
        return real(name, value)
    if hint is bool:
        require(isinstance(value, bool), name, "must be True or False", repr(value))
        return value
    if get_origin(hint) is Literal:
        known = isinstance(value, str) and value in get_args(hint)
        require(known, name, f"must be {' or '.join(get_args(hint))}", repr(value))
        return value
    several = isinstance(value, Iterable) and not isinstance(value, str)
    require(several, name, "must be several whole numbers, as in (64, 64)", repr(value))
    return tuple(whole(name, each) for each in value)


def _option(recipe_field: Field[Any], hint: Any) -> tuple[str, Any, Any]:
    """A flag for a field of `Recipe`: of the same type, or None for the recipe's value."""
    choices = {bool: ("True", "False")}.get(hint, get_args(hint) if get_origin(hint) is Literal else ())
    kind = {int: Count, float: Real, tuple[int, ...]: Counts}.get(hint, hint | None)
    metavar = f"{{{','.join(choices)}}}" if choices else None  # of numbers, their types have it
    shown = tyro.conf.arg(metavar=metavar, help_behavior_hint="(default: the recipe's)")
    return recipe_field.name, Annotated[kind, shown], field(default=None)


def _options_class() -> type:
    hints = get_type_hints(Recipe)
    flags = [_option(each, hints[each.name]) for each in fields(Recipe)]
    body = {"__doc__": "Flags that take precedence over the recipe.", "__post_init__": lambda self: None}
    # derived, so that the help finds the docstrings of the fields
    return make_dataclass("RecipeOptions", flags, bases=(Recipe,), namespace=body, frozen=True, kw_only=True)


if TYPE_CHECKING:
    RecipeOptions = Recipe
else:
    RecipeOptions = _options_class()
