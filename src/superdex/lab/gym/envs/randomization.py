"""Per-environment physics for tasks that want the usual kind: masses, damping and friction, scaled.

class MyEnv(MochiEnv):
    randomized_fields = SCALED_FIELDS

    def _randomize(self, sim):
        scale_physics(sim, 0.2)
"""

from __future__ import annotations

from superdex.lab.gym.envs.sim import Sim

__all__ = ["SCALED_FIELDS", "scale_physics"]

SCALED_FIELDS = ("body_mass", "body_inertia", "dof_damping", "geom_friction", "pair_friction")
"""What `scale_physics` writes."""


def scale_physics(sim: Sim, spread: float) -> None:
    """Multiply physical parameters of each environment by factors uniform in 1 +- `spread`.

    Each body's mass and inertia share a factor, each degree of freedom's damping has
    one, and all friction of an environment shares one.
    """
    mass, damping = sim.parameter("body_mass"), sim.parameter("dof_damping")
    bodies, dofs = mass.shape[1], damping.shape[1]
    factors = (1 - spread) + 2 * spread * sim.random(bodies + dofs + 1)
    mass *= factors[:, :bodies]
    sim.parameter("body_inertia")[...] *= factors[:, :bodies, None]
    damping *= factors[:, bodies:-1]
    for friction in ("geom_friction", "pair_friction"):
        sim.parameter(friction)[...] *= factors[:, -1:, None]
