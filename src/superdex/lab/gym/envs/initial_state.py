"""Noise on the state that an episode starts from."""

from __future__ import annotations

import mujoco
import numpy as np

from superdex.lab.gym.envs.sim import Sim

__all__ = ["InitialState"]

_QUATERNION_OFFSET = {mujoco.mjtJoint.mjJNT_FREE: 3, mujoco.mjtJoint.mjJNT_BALL: 0}


class InitialState:
    """What noise on positions must respect in a model: joint limits and unit quaternions."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._low = np.full(model.nq, -np.inf)
        self._high = np.full(model.nq, np.inf)
        self._quaternions: list[slice] = []
        for joint in range(model.njnt):
            kind, address = mujoco.mjtJoint(model.jnt_type[joint]), int(model.jnt_qposadr[joint])
            if kind in _QUATERNION_OFFSET:
                start = address + _QUATERNION_OFFSET[kind]
                self._quaternions.append(slice(start, start + 4))
            elif model.jnt_limited[joint]:
                self._low[address], self._high[address] = model.jnt_range[joint]
        self._is_limited = bool(np.isfinite([self._low, self._high]).any())

    def add_noise(self, sim: Sim, scale: float) -> None:
        """Add noise to the rows in play: uniform in +-scale on positions, scale times normal on velocities.

        Positions are clipped to their joints' limits, and quaternions made unit
        again. With scale 0 nothing is drawn.
        """
        if scale == 0:
            return
        uniform, normal = sim.random_and_normal(sim.model.nq, sim.model.nv)
        qpos = sim.qpos + (-scale + (2 * scale) * uniform)
        for span in self._quaternions:
            qpos[:, span] /= np.sqrt(np.square(qpos[:, span]).sum(axis=-1, keepdims=True))
        sim.qpos = qpos.clip(self._low, self._high) if self._is_limited else qpos
        sim.qvel = sim.qvel + scale * normal
