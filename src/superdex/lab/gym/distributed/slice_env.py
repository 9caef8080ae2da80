"""The environments that an actor hosts, as a vector environment of its own process."""

from __future__ import annotations

from superdex.lab.gym.vector.backend import StepBuffers
from superdex.lab.gym.vector.host import EnvHost
from superdex.lab.gym.vector.in_process import InProcessVectorEnv

__all__ = ["SliceVectorEnv"]


class SliceVectorEnv(InProcessVectorEnv):
    """What `host` has, and the buffers for its results; `rollouts.collect` steps it, once it was reset by a request."""

    def __init__(self, host: EnvHost) -> None:
        self._adopt(host.autoreset, host.description.spaces, copy=False)
        self._buffers = host.out = StepBuffers.allocate(self.observation_space, self.num_envs)
        self._ready = True
