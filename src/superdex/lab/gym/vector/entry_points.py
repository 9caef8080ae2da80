"""What `gymnasium.make_vec` calls for each registered task: its class as a native batch in this process.

The attributes of this module are the task classes' names, as in
`superdex.lab.gym.vector.entry_points:AntEnv`: the registry looks them up by strings.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from superdex.lab.gym.envs import benchmarks, gymnasium_v5
from superdex.lab.gym.vector.scene_vector_env import SceneVectorEnv

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    for package in (benchmarks, gymnasium_v5):
        if name in package.__all__:
            return partial(SceneVectorEnv, getattr(package, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
