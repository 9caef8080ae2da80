"""The base class of all tasks: a Gymnasium environment written once, over rows.

    class ReachEnv(MochiEnv):
        Cfg = ReachCfg
        uid_fields = ("arm_length",)             # the config fields that change the model

        def _build_model(self):
            return load_model(HERE / "reach.xml", set_length, self.cfg.arm_length)

        def _action_parts(self):
            return {"torque": Box(-1, 1, (2,))}

        def _observation_parts(self):
            return {"pose": Box(-np.inf, np.inf, (2,)), "vel": Box(-np.inf, np.inf, (2,))}

        def _apply_action(self, sim, action):
            sim.ctrl = action["torque"]

        def _make_observation(self, sim):
            return {"pose": sim.qpos, "vel": sim.qvel}, {}

        def _compute_reward_terms(self, action, observation, info):
            return {"still": -np.square(observation["vel"]).sum(axis=-1)}

The class is then a plain `gymnasium.Env`, and its environments step as one
native batch in `SceneVectorEnv` and `HybridVectorEnv`, with equal results to the
bit. What that asks of a task:

- hooks get and return arrays with a leading axis of N environments, and N is 1
  for an environment that is stepped alone;
- a hook depends on its arguments, `self.cfg` and the model only. What a task
  keeps from step to step it declares (`_declare_state`); an attribute would be
  shared by the batch;
- sums over the parts of a row are written elementwise or as `.sum(axis=-1)`; `@`
  and `np.dot` may round differently for another N.

A task that cannot be written over arrays sets `vectorized = False`: its hooks
then get one environment at a time everywhere.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import gymnasium
import mujoco
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from superdex.lab.gym.envs.capturing import capture, restore, section_key
from superdex.lab.gym.envs.config import TaskCfg
from superdex.lab.gym.envs.env_state import EnvState, Section, require_state
from superdex.lab.gym.envs.hooks import TaskHooks
from superdex.lab.gym.envs.reasons import of_single_row
from superdex.lab.gym.envs.rendering import RENDER_MODES, Rendered
from superdex.lab.gym.envs.scene_manager import SceneManager
from superdex.lab.gym.envs.task_batch import NOT_RESET, TaskBatch
from superdex.physics import Scene

__all__ = ["MochiEnv"]


class MochiEnv(TaskHooks, Rendered, gymnasium.Env[NDArray[Any], NDArray[Any]]):  # type: ignore[override]
    """A task over rows of a scene; see the module's docstring.

    Args:
        cfg: a `Cfg`, a dict of its fields, or None for the defaults.
        **overrides: fields that take precedence over `cfg`.

    Raises:
        TypeError, ValueError: if the configuration is not valid.
        RuntimeError: if the scene cannot be shared and `use_shared_scenes` is set.
    """

    own_attributes: ClassVar[frozenset[str]] = (
        TaskHooks.own_attributes
        | Rendered.own_attributes
        | {"cfg", "scene", "spec", "_batch", "_joined", "_closed", "_release_scene", "_observation"}
        | {"_generator", "_np_random_seed"}
    )
    """The attributes that each environment has of its own without being another task: its rows, generator, lifetime
    and spaces. In all others the environments of a native batch are equal."""

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012 (an instance gets its own)

    def __init__(self, cfg: TaskCfg | Mapping[str, Any] | None = None, **overrides: Any) -> None:
        self.cfg = self.Cfg.make(cfg, **overrides)
        self._check_render_mode()
        self.render_mode = self.cfg.render_mode
        super().__init__()
        self._closed = False
        self._batch: TaskBatch | None = None
        self._joined: tuple[TaskBatch, int] | None = None
        self._release_scene: Callable[[], Any] | None = None
        self.scene = self._create_scene()
        if self.cfg.use_shared_scenes and self.scene.has_rom_actors:
            self.close()
            self.scene.require_capturable()
        self.metadata = {**self.metadata, "render_fps": round(1 / self.dt, 6)}

    # The scene

    def _create_scene(self) -> Scene:
        return self._load_scene(self.scene_name, self._build_model)

    @property
    def scene_name(self) -> str:
        """The class and its `uid_fields`, such as `CartPole(use_gravity=True)`."""
        self.cfg.check_fields(self.uid_fields)
        fields = ", ".join(f"{field}={getattr(self.cfg, field)!r}" for field in self.uid_fields)
        return f"{type(self).__name__.removesuffix('Env')}({fields})"

    def _load_scene(self, name: str, builder: Callable[[], mujoco.MjModel]) -> Scene:
        """The scene of that name, shared with the other environments of this class in the process.

        Args:
            name: must tell apart all configurations for which `builder` gives
                different models. The simulation frequency, if the configuration has one, is added to it.
            builder: makes the model if there is no such scene yet, or sharing is off.
        """
        name += self.cfg.rate_suffix

        def build() -> Scene:
            model = builder()
            if self.cfg.timestep is not None:
                model.opt.timestep = self.cfg.timestep
            return Scene(name, model)

        if not self.cfg.use_shared_scenes:
            return build()
        manager = SceneManager.get_instance(type(self).__name__)
        key, scene = manager.acquire(name, build, type(self))
        self._release_scene = weakref.finalize(self, manager.release, key)
        return scene

    # Gymnasium's interface

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin an episode; see `gymnasium.Env.reset`."""
        batch = self.batch
        self.warn_if_not_shared()
        observation = np.empty((1, self.observation_layout.size), self.observation_layout.dtype)
        info = batch.reset(None, [seed], options, observation)
        self._observation[:] = observation[0]
        if self.render_mode == "human":
            self.render()
        return observation[0], of_single_row(info)

    def step(self, action: NDArray[Any]) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Run one control step; see `gymnasium.Env.step`.

        Args:
            action: (size,), clipped to `action_space` unless the task says otherwise.

        Raises:
            ValueError: if the action has another shape, or an entry that is not finite.
            gymnasium.error.ResetNeeded: before the first reset.
        """
        action = np.asarray(action)
        if action.shape != (self.action_layout.size,) or action.dtype.kind not in "fiu":
            raise ValueError(
                f"An action must be numbers of shape ({self.action_layout.size},),"
                f" got shape {action.shape} and dtype {action.dtype}."
            )
        if not np.isfinite(action).all():
            raise ValueError(f"An action must be finite, got {action}.")
        if self.batch.episode_steps[0] == NOT_RESET:
            raise ResetNeeded(f"{type(self).__name__} must be reset before its first step: call reset().")
        observation = np.empty((1, self.observation_layout.size), self.observation_layout.dtype)
        reward, terminated, truncated = np.empty(1), np.empty(1, np.bool_), np.empty(1, np.bool_)
        info = self.batch.step(None, action[None], observation, reward, terminated, truncated)
        self._observation[:] = observation[0]
        if self.render_mode == "human":
            self.render()
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), of_single_row(info)

    def close(self) -> None:
        """Let go of the scene; its other environments keep working. May be called twice."""
        self._closed = True
        self._batch = self._joined = None
        self._stop_showing()
        if self._release_scene is not None:
            self._release_scene()
            self._release_scene = None

    # Checkpoints

    def capture_state(self) -> EnvState:
        """Everything that decides this environment's future; see `superdex.lab.gym.envs.env_state`.

        Raises:
            RuntimeError: if the scene's state cannot be captured (ROM actors, sleep), or the environment
                is part of a vector environment's native batch, which has to be asked instead.
        """
        self._require_alone("capture_state")
        return EnvState.join([capture(self.batch)], np.zeros(1, np.bool_), self._observation[None].copy())

    def restore_state(self, state: EnvState) -> NDArray[Any]:
        """Continue from a captured state of one environment, to the bit.

        Returns:
            The observation that was returned last before the capture.

        Raises:
            ValueError: if the state is of another task, configuration or number of environments.
            RuntimeError: if the environment is part of a vector environment's native batch.
        """
        require_state(state)
        self._require_alone("restore_state")
        state.require_fit([section_key(self)], None)
        self.continue_from(state.sections[0], state.observation[0])
        return self._observation.copy()

    def continue_from(self, section: Section, observation: NDArray[Any]) -> None:
        """Continue from the state of one environment, which fits, and from the observation that was returned last."""
        restore(self.batch, section)
        self._observation[:] = observation

    def _require_alone(self, method: str) -> None:
        if self._joined is not None:
            raise RuntimeError(
                f"This {type(self).__name__} is environment {self._joined[1]} of a native batch, which has its"
                f" observations: call {method}() of the vector environment. Its state has a part(i, i + 1) for each"
                " environment i, which an environment alone can restore."
            )

    # Rows

    @property
    def batch(self) -> TaskBatch:
        """This environment as a batch of one row: a row of the scene's, or of a batch that it has joined."""
        if self._closed:
            raise RuntimeError(f"This {type(self).__name__} is closed: make a new one.")
        if self._batch is None and self._joined is not None:
            batch, index = self._joined
            self._batch = batch.row(index)
        elif self._batch is None:
            row = self.scene.acquire_row(self.randomized_fields)
            self._batch = TaskBatch([self], row)
            weakref.finalize(self._batch, self.scene.release_row, row)
        return self._batch

    def join(self, batch: TaskBatch, index: int) -> None:
        """From now on be row `index` of a native batch, which the environment must be a member of."""
        self._batch, self._joined = None, (batch, index)

    @property
    def _np_random(self) -> np.random.Generator | None:  # type: ignore[override]
        """The generator behind `np_random`, or None before the first reset."""
        return self._generator[0]

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator | None) -> None:  # type: ignore[override]
        self._generator[0] = generator

    @cached_property
    def _generator(self) -> NDArray[np.object_]:
        """(1,) where that is kept: in `TaskBatch.generators`, once the environment is part of a batch."""
        return np.empty(1, np.object_)

    @property
    def shares_scene(self) -> bool:
        """Whether other environments may use this environment's scene."""
        return self._release_scene is not None

    def warn_if_not_shared(self) -> None:
        """Emit a RuntimeWarning if sharing is on but the scene did not come from `_load_scene`."""
        if self.cfg.use_shared_scenes and not self.shares_scene:
            warnings.warn(
                f"{type(self).__name__} has use_shared_scenes=True, but its scene {self.scene.name!r} was not created"
                " through _load_scene(), so it is not shared. Create it there, or set use_shared_scenes=False.",
                RuntimeWarning,
                stacklevel=3,
            )

    @cached_property
    def _observation(self) -> NDArray[Any]:
        """(size,) what an environment that is stepped alone returned last."""
        return np.zeros(self.observation_layout.size, self.observation_layout.dtype)

    def _check_render_mode(self) -> None:
        modes = self.metadata["render_modes"]
        if self.cfg.render_mode is not None and self.cfg.render_mode not in modes:
            raise ValueError(
                f"{type(self).__name__} has no render mode {self.cfg.render_mode!r}; it has {modes or 'none'}."
            )
