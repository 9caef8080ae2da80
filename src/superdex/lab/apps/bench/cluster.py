"""What training over a cluster costs, and where the learner becomes the limit.

    python -m superdex.lab.apps.bench.cluster --json cluster.json

Collecting and learning are measured in CPU time on one thread each, which other load on the machine
changes less than wall time; what Ray adds to a step is wall time, for which the machine must be left alone.

From these figures follows what m cores on any number of nodes give to one learner, which waits for
all rollouts and then learns from them while they wait. One control step of one environment takes

    collecting / m + transfer + learning

so more cores help until the first part is no longer than the others: steps per second tend to the
learner's own limit, and half of it is reached with as many cores as collecting is times the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import tyro
from rich.table import Table

from superdex.lab.apps.atomic import replace_file
from superdex.lab.apps.errors import UserError, told
from superdex.lab.apps.extras import require_extra
from superdex.lab.apps.machine import machine_facts
from superdex.lab.apps.options import require_writable
from superdex.lab.apps.tables import make_console, make_table
from superdex.lab.apps.tasks import find_task
from superdex.lab.apps.train.config import Stepping, TrainConfig
from superdex.lab.apps.train.environments import make_environments
from superdex.lab.apps.train.recipes import recipe_for
from superdex.lab.gym.rollouts import Policy, Rollout
from superdex.lab.gym.vector.base import BatchedVectorEnv

if TYPE_CHECKING:
    from superdex.lab.gym.adapters.ppo import BatchPPO

__all__ = ["ClusterBench", "Costs", "costs_table", "measure", "speeds_table"]

_CORES = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What was measured of one task; medians."""

    task: str
    num_envs: int
    num_steps: int
    """Control steps of each environment in a rollout."""
    collecting: float
    """CPU time of one core for one control step of one environment, the policy included [s]."""
    learning: float
    """CPU time of one core for PPO to learn from it [s]."""
    rollout_bytes: int
    """Of all environments."""
    policy_bytes: int
    """What goes to each actor before a rollout."""
    in_process_step: float
    """Wall time of a step of all environments in the caller's process, without a policy [s]."""
    ray_step: float
    """The same through Ray, by `step` [s]."""
    ray_collect: float
    """Wall time of a step of all environments, with the policy, as a part of `collect` through Ray [s]."""

    def transfer(self, gigabits: float) -> float:
        """How long the network, of so many Gbit/s, has to do with one control step of one environment [s]."""
        return 8 * self.rollout_bytes / (self.num_envs * self.num_steps) / (1e9 * gigabits)

    def speed(self, cores: int, gigabits: float) -> float:
        """Control steps per second in training, with so many cores that collect."""
        return 1 / (self.collecting / cores + self.transfer(gigabits) + self.learning)

    def limit(self, gigabits: float) -> float:
        """Control steps per second that no number of cores exceeds."""
        return 1 / (self.transfer(gigabits) + self.learning)

    def cores_half_way(self, gigabits: float) -> float:
        """With how many cores half of the limit is reached."""
        return self.collecting * self.limit(gigabits)


def measure(task: str, num_envs: int, rounds: int, num_steps: int | None = None) -> Costs:
    """Measure a task with its recipe, but `num_envs` environments, and `num_steps` of a rollout if that is given."""
    from superdex.lab.apps.train.learner import make_learner  # imports torch

    recipe = replace(recipe_for(find_task(task)), num_envs=num_envs)
    recipe = replace(recipe, n_steps=num_steps or recipe.n_steps)
    alone = Stepping(num_threads=1)
    task_id, total = find_task(task).task_id, recipe.total_steps
    config = TrainConfig(task_id=task_id, seed=0, recipe=recipe, stepping=alone, checkpoint_every=total)
    with make_environments(config) as envs:
        learner = make_learner(config, envs)
        collecting, learning = _iterate(learner, rounds)
        policy = learner.actor()
        in_process_step = _step_seconds(envs, recipe.n_steps, rounds)
    config = replace(config, stepping=Stepping(num_threads=1, ray=True))
    ray_step, ray_collect, rollout_bytes = _measure_ray(config, policy, rounds)
    return Costs(
        task=find_task(task).name,
        num_envs=num_envs,
        num_steps=recipe.n_steps,
        collecting=collecting / recipe.steps_per_iteration,
        learning=learning / recipe.steps_per_iteration,
        rollout_bytes=rollout_bytes,
        policy_bytes=len(cloudpickle.dumps(policy)),
        in_process_step=in_process_step,
        ray_step=ray_step,
        ray_collect=ray_collect,
    )


def _iterate(learner: BatchPPO, rounds: int) -> tuple[float, float]:
    """CPU time of an iteration's rollout, and of all else in it [s]."""
    collect = learner.adapter.collect
    collecting, learning = [0.0], []

    def timed(*args: Any, **kwargs: Any) -> Rollout:
        begin = process_time()
        rollout = collect(*args, **kwargs)
        collecting.append(process_time() - begin)
        return rollout

    learner.adapter.collect = timed  # type: ignore[method-assign]
    begin = process_time()
    for _ in learner.iterations((rounds + 1) * learner.n_envs * learner.n_steps):
        learning.append(process_time() - begin - collecting[-1])
        begin = process_time()
    return median(collecting[2:]), median(learning[1:])  # without the first iteration, which warms up


def _measure_ray(config: TrainConfig, policy: Policy, rounds: int) -> tuple[float, float, int]:
    """A step, a step of a rollout [s], and a rollout's size [bytes], with one actor of one thread."""
    from superdex.lab.gym.distributed import RayVectorEnv

    num_steps = config.recipe.n_steps
    with make_environments(config) as envs:
        assert isinstance(envs, RayVectorEnv)
        envs.reset(seed=0)
        step = _step_seconds(envs, num_steps, rounds)
        collect = _median(perf_counter, lambda: envs.collect(policy, num_steps), rounds) / num_steps
        rollout = envs.collect(policy, num_steps)
    return step, collect, sum(getattr(rollout, each.name).nbytes for each in fields(rollout))


def _step_seconds(envs: BatchedVectorEnv, num_steps: int, rounds: int) -> float:
    rng, space = np.random.default_rng(0), envs.action_space
    actions = rng.uniform(-1.0, 1.0, (num_steps, *space.shape)).astype(space.dtype)

    def lap() -> None:
        for each in actions:
            envs.step(each)

    return _median(perf_counter, lap, rounds) / num_steps


def _median(clock: Callable[[], float], lap: Callable[[], object], rounds: int) -> float:
    """How long a lap takes, by the clock [s]; one more than `rounds` is run, to warm up."""
    seconds = []
    for _ in range(rounds + 1):
        begin = clock()
        lap()
        seconds.append(clock() - begin)
    return median(seconds[1:])


@dataclass(frozen=True, kw_only=True)
class ClusterBench:
    """Measure what training over a cluster costs, and say what more cores would give."""

    env: tuple[str, ...] = ("CartPole", "HalfCheetah", "AntNoContact")
    """Tasks."""
    num_envs: int = 1000
    """Environments of the one actor that is measured."""
    rounds: int = 5
    """Rollouts, updates and laps of steps that are timed."""
    gigabits: float = 10.0
    """Speed of the network between nodes and learner [Gbit/s]."""
    json: Path | None = None
    """Write machine facts and figures to this file."""

    def run(self) -> int:
        """Measure and report; returns the exit code."""
        require_extra("train", "This measurement", "torch", "stable_baselines3")
        require_extra("ray", "This measurement", "ray")
        if min(self.num_envs, self.rounds) < 1 or not self.gigabits > 0:
            raise UserError("--num_envs and --rounds must be at least 1, and --gigabits positive.")
        if self.json is not None:
            require_writable("json", self.json)
        costs = [measure(task, self.num_envs, self.rounds) for task in self.env]
        console = make_console()
        console.print(costs_table(costs), speeds_table(costs, self.gigabits))
        if self.json is not None:
            document = {"machine": machine_facts(), "costs": [*map(asdict, costs)]}
            text = json.dumps(document, indent=1) + "\n"
            replace_file(self.json, lambda path: path.write_text(text))
        return 0


def costs_table(costs: Sequence[Costs]) -> Table:
    """What was measured."""
    rows: list[tuple[str, Callable[[Costs], str]]] = [
        ("environments x steps of a rollout", lambda c: f"{c.num_envs:,} x {c.num_steps}"),
        ("collecting, one core (us per environment's step)", lambda c: f"{1e6 * c.collecting:.1f}"),
        ("learning, one core (us per environment's step)", lambda c: f"{1e6 * c.learning:.1f}"),
        ("rollout (MB)", lambda c: f"{c.rollout_bytes / 1e6:.1f}"),
        ("rollout (bytes per environment's step)", lambda c: f"{c.rollout_bytes / (c.num_envs * c.num_steps):.0f}"),
        ("policy (kB)", lambda c: f"{c.policy_bytes / 1e3:.0f}"),
        ("step in process, one thread (ms)", lambda c: f"{1e3 * c.in_process_step:.2f}"),
        ("step through Ray, one thread (ms)", lambda c: f"{1e3 * c.ray_step:.2f}"),
        ("step of a collected rollout, one thread (ms)", lambda c: f"{1e3 * c.ray_collect:.2f}"),
    ]
    table = make_table("Costs", "measured", *(each.task for each in costs))
    for name, show in rows:
        table.add_row(name, *map(show, costs))
    return table


def speeds_table(costs: Sequence[Costs], gigabits: float) -> Table:
    """What follows from it for many cores."""
    title = f"Control steps per second in training, one core for the learner, {gigabits:g} Gbit/s"
    table = make_table(title, "cores that collect", *(each.task for each in costs))
    for cores in _CORES:
        table.add_row(str(cores), *(f"{each.speed(cores, gigabits):,.0f}" for each in costs))
    table.add_row("limit", *(f"{each.limit(gigabits):,.0f}" for each in costs))
    table.add_row("half of it with", *(f"{each.cores_half_way(gigabits):.1f} cores" for each in costs))
    return table


if __name__ == "__main__":
    raise SystemExit(told(lambda: tyro.cli(ClusterBench).run()))
