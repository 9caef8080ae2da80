"""What a task declares and defines: the part of `MochiEnv` that authors override.

Every hook gets and returns arrays with a leading axis of N environments; N is 1
for one that is stepped alone. One control step calls, in this order,
`_apply_action`, the physics, `_make_observation`, `_make_step_info`,
`_compute_reward_terms`, `_total_reward` and `_check_stop_criteria`; a reset calls
`_randomize`, `_reset` and `_make_observation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import mujoco
import numpy as np
from numpy.typing import DTypeLike, NDArray

from superdex.lab.gym.envs.config import MochiEnvCfg, TaskCfg
from superdex.lab.gym.envs.errors import MissingHookError
from superdex.lab.gym.envs.initial_state import InitialState
from superdex.lab.gym.envs.sim import Sim
from superdex.lab.gym.envs.spaces import FlattenedSpaces
from superdex.lab.gym.envs.types import StructuredArrays, Terminate, Truncate
from superdex.physics import Scene

__all__ = ["TaskHooks"]


class TaskHooks(FlattenedSpaces):
    """Declarations and hooks of a task; see the module's docstring, and `MochiEnv` for an example."""

    Cfg: ClassVar[type[TaskCfg]] = MochiEnvCfg
    uid_fields: ClassVar[tuple[str, ...]] = ()
    """The config fields that change the model, and no others: they make up the scene's name."""
    vectorized: ClassVar[bool] = True
    """Whether the hooks work for any number of rows."""
    acts_per_substep: ClassVar[bool] = False
    """Whether `_apply_action` is called before each physics step, not once for the whole control step."""
    clips_actions: ClassVar[bool] = True
    """Whether `_apply_action` and rewards get actions clipped to their space, not as they were given."""
    task_state: ClassVar[Mapping[str, tuple[int, ...]]] = {}
    """Shapes of what the task keeps between steps, by name; `_declare_state` declares what depends on the model."""
    derived_fields: tuple[str, ...] = ()
    """The fields of `mujoco.MjData`, beyond the state, that the hooks read: "xpos", "sensordata", ..."""
    randomized_fields: tuple[str, ...] = ()
    """The fields of `mujoco.MjModel` (or `opt.<field>`) that `_randomize` gives each environment a value of its own."""
    hyperparameters: ClassVar[Mapping[str, Any]] = {}
    """How `superdex train` is to train the task where its flags say nothing else: settings by the flags' names."""

    own_attributes: ClassVar[frozenset[str]] = FlattenedSpaces.own_attributes | {"_initial"}
    """See `MochiEnv.own_attributes`."""

    cfg: Any
    """The configuration, of type `Cfg`; a task that adds fields declares its own type."""
    scene: Scene
    """The compiled model by its name, which other environments may share."""

    def __init__(self) -> None:
        self.declared_state: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
        """Shape and dtype of the task's own state, by name."""
        if not isinstance(self.task_state, Mapping):
            raise TypeError(f"task_state must map names to shapes, as in {{'target': (3,)}}, got {self.task_state!r}.")
        for name, shape in self.task_state.items():
            self._declare_state(name, shape)

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            if "declared_state" not in self.__dict__:
                raise AttributeError(
                    f"{type(self).__name__} has no {name!r} yet: "
                    "its __init__ must first call super().__init__(cfg, **overrides)."
                )
            return object.__getattribute__(self, name)  # raises what was raised: a property's own error, perhaps

    def _declare_state(self, name: str, shape: tuple[int, ...] = (), dtype: DTypeLike = np.float64) -> None:
        """Declare what the task keeps between steps: `sim.task[name]`, (N, *shape), zero after a reset.

        Call it in `__init__`.

        Raises:
            TypeError: if `shape` is not a tuple of ints, or `dtype` no dtype.
        """
        if not isinstance(shape, tuple) or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise TypeError(
                f"The shape of the state {name!r} must be a tuple of sizes, such as () for one number per"
                f" environment or (3,), got {shape!r}."
            )
        self.declared_state[name] = (shape, np.dtype(dtype))

    def _build_model(self) -> mujoco.MjModel:
        """The compiled model of this configuration; the caller sets its time step if the configuration gives one."""
        raise MissingHookError.of(self, "_build_model()")

    def _reset(self, sim: Sim, options: Mapping[str, Any]) -> None:
        """Bring rows, which are in the model's initial state, into the state that an episode starts from.

        By default adds noise of `cfg.reset_noise_scale`: uniform on positions,
        clipped to joint limits, and normal on velocities.
        """
        self._initial.add_noise(sim, self.cfg.reset_noise_scale)

    def _randomize(self, sim: Sim) -> None:
        """Write `sim.parameter(field)` for `randomized_fields`, at the start of an episode, before `_reset`.

        They hold the model's values before. Draw by `sim.random` and the like.
        """

    def _apply_action(self, sim: Sim, action: StructuredArrays) -> None:
        """Write controls or forces for actions `action[key]`, (N, *shape).

        `sim` is as the last step left it: what is compared with the state after the
        step is recorded here, in `sim.task`.
        """
        raise MissingHookError.of(self, "_apply_action()")

    def _make_observation(self, sim: Sim) -> tuple[StructuredArrays, StructuredArrays]:
        """The observation by key and infos by name, each value (N, ...), after a reset or a step."""
        raise MissingHookError.of(self, "_make_observation()")

    def _make_step_info(self, sim: Sim) -> StructuredArrays:
        """Infos by name, each (N, ...), that only a step has, such as a velocity over the step."""
        return {}

    def _compute_reward_terms(
        self, action: StructuredArrays, observation: StructuredArrays, info: StructuredArrays
    ) -> StructuredArrays:
        """Terms by name, each (N,); each is also `info["reward_<name>"]`. `info` has that of `_make_step_info`, too."""
        raise MissingHookError.of(self, "_compute_reward_terms()")

    def _total_reward(self, terms: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """The reward (N,): the terms' sum, from the first to the last.

        Override it where the order of additions matters to the last bit.
        """
        total = np.zeros_like(next(iter(terms.values())))
        for term in terms.values():
            total += term
        return total

    def _check_stop_criteria(
        self, sim: Sim, observation: StructuredArrays, info: StructuredArrays
    ) -> Iterable[Terminate | Truncate]:
        """Masks (N,) of episodes that end, with the reason. `cfg.steps_per_episode` needs no mention here."""
        return ()

    @property
    def dt(self) -> float:
        """Duration of a control step [s]: that of a physics step, times their number."""
        return self.scene.model.opt.timestep * self.cfg.num_substeps

    @cached_property
    def _initial(self) -> InitialState:
        return InitialState(self.scene.model)
