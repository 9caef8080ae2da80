"""Which scenes exist in this process, and who uses them.

    manager = SceneManager.get_instance("CartPoleEnv")
    manager.scene_info            # {"CartPole(use_damping=True, ...)": 125}

There is one manager per environment class name. It hands out scenes by name and
counts their users: the first acquires builds the scene, the last to release it
destroys it, in whatever order they close. Two environment classes never share a
scene, even under one scene name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from superdex.physics import Scene

__all__ = ["SceneManager"]


@dataclass(slots=True)
class _Entry:
    name: str
    scene: Scene
    owner: type
    num_users: int


class SceneManager:
    """Scenes of one environment class by name, with reference counts. Use `get_instance`."""

    _instances: ClassVar[dict[str, SceneManager]] = {}
    _lock = threading.RLock()

    def __init__(self, class_name: str) -> None:
        self.class_name = class_name
        self._entries: dict[str, _Entry] = {}
        self._keys: dict[tuple[str, type], str] = {}

    @classmethod
    def get_instance(cls, class_name: str) -> SceneManager:
        """The manager of the environment class of that name in this process."""
        with cls._lock:
            if class_name not in cls._instances:
                cls._instances[class_name] = cls(class_name)
            return cls._instances[class_name]

    @property
    def scene_count(self) -> int:
        """How many scenes there are."""
        return len(self._entries)

    @property
    def scene_info(self) -> dict[str, int]:
        """Number of users by scene name."""
        return {name: entry.num_users for name, entry in self._entries.items()}

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def acquire(self, name: str, builder: Callable[[], Scene], owner: type) -> tuple[str, Scene]:
        """The scene of that name, built by `builder` if there is none yet, and one more user for it.

        Args:
            name: the scene's name.
            builder: called without arguments if the scene has to be built.
            owner: the class that asks. Another class of the same class name (from
                another module, or an edited notebook cell) gets a scene of its own.

        Returns:
            The name to release the scene by, and the scene.
        """
        with self._lock:
            key = self._keys.get((name, owner))
            if key is None:
                scene = builder()
                key = name
                while key in self._entries:
                    key += f" of {owner.__module__}" if key == name else "'"
                self._keys[name, owner] = key
                self._entries[key] = _Entry(name, scene, owner, 0)
            entry = self._entries[key]
            entry.num_users += 1
            return key, entry.scene

    def release(self, name: str) -> None:
        """One user less; the last one's release destroys the scene."""
        with self._lock:
            entry = self._entries[name]
            entry.num_users -= 1
            if entry.num_users == 0:
                del self._entries[name], self._keys[entry.name, entry.owner]
