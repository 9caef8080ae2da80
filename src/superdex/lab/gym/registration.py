"""The Gymnasium ids of our tasks: the benchmark tasks, and Gymnasium's own MuJoCo v5 tasks.

    import gymnasium
    import superdex.lab.gym                                      # registers the ids

    env = gymnasium.make("superdex_gym/Ant-v0")
    envs = gymnasium.make_vec("superdex_gym/Ant-v0", num_envs=1000, vectorization_mode="vector_entry_point")
    same = gymnasium.make("superdex_gym/GymnasiumAnt-v5")        # to the bit what "Ant-v5" gives

`make` gives one environment, `make_vec` the native batch in this process. Both
take the fields of the task's configuration as keywords.
"""

from __future__ import annotations

from typing import Any

import gymnasium

__all__ = ["TASKS", "register_tasks"]

NAMESPACE = "superdex_gym"
_ENVS = "superdex.lab.gym.envs"

_GYMNASIUM_V5 = (
    *("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum"),
    *("InvertedPendulum", "Pusher", "Reacher", "Swimmer", "Walker2d"),
)

# id: (module:class, configuration fields that differ from the defaults)
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "Ant-v0": ("benchmarks.ant_env:AntEnv", {}),
    "AntFullObservation-v0": ("benchmarks.ant_env:AntEnv", {"exclude_current_positions_from_observation": False}),
    "AntNoContact-v0": ("benchmarks.ant_env:AntEnv", {"include_contact_in_observation": False}),
    "AntRotationVector-v0": ("benchmarks.ant_env:AntEnv", {"use_rotation_vector": True}),
    "CartPole-v0": ("benchmarks.cartpole_env:CartPoleEnv", {}),
    "CartPoleActuateOnPole-v0": ("benchmarks.cartpole_env:CartPoleEnv", {"actuate_on_pole": True}),
    "HalfCheetah-v0": ("benchmarks.halfcheetah_env:HalfCheetahEnv", {}),
    "HalfCheetahFullObservation-v0": (
        "benchmarks.halfcheetah_env:HalfCheetahEnv",
        {"exclude_current_position_from_observation": False},
    ),
    **{f"Gymnasium{name}-v5": (f"gymnasium_v5:{name}V5Env", {}) for name in _GYMNASIUM_V5},
}


def register_tasks() -> None:
    """Register all of `TASKS` with Gymnasium, once."""
    for name, (entry_point, fields) in TASKS.items():
        task_id = f"{NAMESPACE}/{name}"
        if task_id not in gymnasium.registry:
            gymnasium.register(
                task_id,
                entry_point=f"{_ENVS}.{entry_point}",
                vector_entry_point=f"superdex.lab.gym.vector.entry_points:{entry_point.partition(':')[2]}",
                kwargs=fields,
            )
