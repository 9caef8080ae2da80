"""Environments, vector environments and their Gymnasium ids. Importing this package registers the ids."""

from superdex.lab.gym.registration import TASKS, register_tasks

register_tasks()

__all__ = ["TASKS", "register_tasks"]
