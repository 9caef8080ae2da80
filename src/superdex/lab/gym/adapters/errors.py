"""What the adapters' learners raise; importable without their libraries."""

__all__ = ["TrainingDiverged"]


class TrainingDiverged(RuntimeError):
    """The loss, the policy or what the environments gave is no longer finite; what was saved before is good."""
