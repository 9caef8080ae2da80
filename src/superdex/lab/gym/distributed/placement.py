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
_RESERVED, _REMOVED = "CREATED", "REMOVED"
"""States of a placement group; in all others Ray still looks for room."""
_REMOVED_MESSAGE = "The reservation of all workers (a placement group) was removed, and with it they ended."


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
            if lack := self._lack():
                raise PlacementError(lack, None, ())
        except BaseException:
            self.release()
            raise

    def strategy(self, worker: int) -> PlacementGroupSchedulingStrategy:
        """Where Ray puts this worker."""
        return PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=worker)

    def require_room(self, worker: int, environments: range) -> None:
        """Wait until there is a place for the successor of a worker that died, perhaps with its node.

        Raises:
            PlacementError: if there is none within the timeout, or the reservation is no more.
        """
        if lack := self._lack():
            message = f"{worker_name(worker, environments)} died, and there is no room for its successor. {lack}"
            raise PlacementError(message, worker, environments)

    def loss(self, worker: int, environments: range) -> PlacementError | None:
        """If not all workers have a place any more, the error for one of them whose process did not start."""
        state = self._state()
        if state == _RESERVED:
            return None
        lack = _REMOVED_MESSAGE if state == _REMOVED else self._refusal("which the cluster no longer has")
        message = (
            f"{worker_name(worker, environments)} lost its place on the cluster before its process started. {lack}"
        )
        return PlacementError(message, worker, environments)

    def release(self) -> None:
        """Give the CPUs back, which ends all workers on them."""
        with suppress(RayError):
            remove_placement_group(self._group)

    def _lack(self) -> str:
        """Wait until there is room: empty; or what to say of why there is none."""
        deadline = time.monotonic() + self._timeout
        while (state := self._state()) != _RESERVED:
            if state == _REMOVED:
                return _REMOVED_MESSAGE
            if time.monotonic() > deadline:
                return self._refusal(f"which the cluster did not have within scheduling_timeout = {self._timeout:g} s")
            time.sleep(_POLL_SECONDS)
        return ""

    def _state(self) -> str:
        return placement_group_table(self._group).get("state", _REMOVED)  # Ray forgets removed ones in the end

    def _refusal(self, lack: str) -> str:
        nodes = sorted(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])
        free = ray.available_resources().get("CPU", 0)
        return (
            f"{self._num_workers} workers with {self.num_cpus:g} CPUs each need {self._num_workers * self.num_cpus:g}"
            f" CPUs, {lack}. Its nodes have {' + '.join(f'{cpus:g}' for cpus in nodes)} CPUs, of which {free:g} are"
            " free. Use fewer workers or fewer CPUs for each (num_cpus_per_worker), end what else runs there, or add"
            " nodes."
        )
