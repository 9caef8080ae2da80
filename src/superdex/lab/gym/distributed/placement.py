"""Room for the workers on a cluster: one placement group, with a bundle of CPUs for each worker.

All bundles are reserved at once, or none: so a batch that does not fit is told
from one that is slow to start. They are spread over the nodes as far as there is
room. A bundle stays reserved when its worker dies, so that there is room for the
next; if its node dies, Ray looks for another.
"""

from __future__ import annotations

import time
from contextlib import suppress

import ray
from ray.exceptions import RayError
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from superdex.lab.gym.vector.errors import WorkerError, worker_name

__all__ = ["Placement", "PlacementError"]

_POLL_SECONDS = 0.02


class PlacementError(WorkerError):
    """The cluster has no room for the workers."""


class Placement:
    """Reserved CPUs for `num_workers` workers.

    Args:
        num_workers: how many bundles.
        num_cpus: CPUs of each.
        timeout: [s] within which there must be room.

    Raises:
        PlacementError: if there is not; nothing stays reserved.
    """

    def __init__(self, num_workers: int, num_cpus: float, timeout: float) -> None:
        self.num_cpus = num_cpus
        self._num_workers = num_workers
        self._timeout = timeout
        self._group: PlacementGroup = placement_group([{"CPU": num_cpus}] * num_workers, strategy="SPREAD")
        try:
            if not self._has_room():
                raise PlacementError(self._refusal(), None, ())
        except BaseException:
            self.release()
            raise

    def strategy(self, worker: int) -> PlacementGroupSchedulingStrategy:
        """Where Ray puts this worker."""
        return PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=worker)

    def require_room(self, worker: int, environments: range) -> None:
        """Wait until there is a place for the successor of a worker that died, perhaps with its node.

        Raises:
            PlacementError: if there is none within the timeout.
        """
        if not self._has_room():
            message = f"{worker_name(worker, environments)} died, and there is no room for its successor. "
            raise PlacementError(message + self._refusal(), worker, environments)

    def release(self) -> None:
        """Give the CPUs back, which ends all workers on them."""
        with suppress(RayError):
            remove_placement_group(self._group)

    def _has_room(self) -> bool:
        deadline = time.monotonic() + self._timeout
        while placement_group_table(self._group)["state"] != "CREATED":
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _refusal(self) -> str:
        nodes = sorted(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])
        free = ray.available_resources().get("CPU", 0)
        return (
            f"{self._num_workers} workers with {self.num_cpus:g} CPUs each need {self._num_workers * self.num_cpus:g}"
            f" CPUs; within scheduling_timeout = {self._timeout:g} s the cluster did not have them. Its nodes have"
            f" {' + '.join(f'{cpus:g}' for cpus in nodes)} CPUs, of which {free:g} are free. Use fewer workers or fewer"
            " CPUs for each (num_cpus_per_worker), end what else runs there, or add nodes."
        )
