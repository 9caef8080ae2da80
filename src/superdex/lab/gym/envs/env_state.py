"""Everything that decides the future of environments, as plain arrays.

    state = env.capture_state()          # a MochiEnv, SceneVectorEnv or HybridVectorEnv
    state.save("checkpoint.npz")
    ...
    observation = env.restore_state(EnvState.load("checkpoint.npz"))

The rollout then continues to the bit: in another process, on another split, in
another kind of vector environment with the same environments in the same order.
A state holds physics rows, counters, the task's declared state, every random
generator and what autoreset still has to do. It does not hold models or hooks:
it is restored into environments of the same tasks and configurations.

A file is a NumPy `.npz` without pickle that describes itself: `header` is JSON
with format, version and, for each section, task and configuration.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["EnvState", "Section", "SectionKey", "require_state"]

_FORMAT = "superdex-gym environment state"
_VERSION = 1
_HEADER, _INDICES, _PENDING, _OBSERVATION = "header", "environments", "pending", "observation"


@dataclass(frozen=True, order=True)
class SectionKey:
    """What environments must have in common for one to continue from another's state."""

    task: str
    """Module and name of the class."""
    cfg: str
    """The configuration as JSON, without the fields that change nothing in a rollout."""
    structure: str
    """Digest of the scene's structure."""

    def difference(self, other: SectionKey) -> str:
        """In what `other` differs, for a message."""
        if self.task != other.task:
            return f"the task is {self.task}, not {other.task}"
        if self.cfg != other.cfg:
            ours, theirs = json.loads(self.cfg), json.loads(other.cfg)
            fields = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
            return ", ".join(f"{name} is {ours.get(name)!r}, not {theirs.get(name)!r}" for name in fields)
        return "the model has another structure"


@dataclass(frozen=True, eq=False)
class Section:
    """The states of n environments of one key."""

    key: SectionKey
    environments: NDArray[np.int64]
    """(n,) their sorted indices among all."""
    arrays: dict[str, NDArray[Any]]
    """Each (n, ...), by name."""

    def take(self, positions: NDArray[np.int64], environments: NDArray[np.int64]) -> Section:
        """The entries at `positions`, as those of `environments`."""
        return Section(self.key, environments, {name: array[positions] for name, array in self.arrays.items()})


@dataclass(frozen=True, eq=False)
class EnvState:
    """The state of `num_envs` environments; see the module's docstring."""

    num_envs: int
    sections: tuple[Section, ...]
    """Sorted by their first environment; one for each key."""
    pending: NDArray[np.bool_]
    """(num_envs,) whose episode ended in the last step and who was not reset since."""
    observation: NDArray[Any]
    """(num_envs, ...) the observations that were returned last, which a policy acts on next."""
    autoreset_mode: str | None = None
    """The vector environment's mode, or None for an environment alone."""

    @classmethod
    def join(
        cls,
        sections: Iterable[Section],
        pending: NDArray[np.bool_],
        observation: NDArray[Any],
        autoreset_mode: str | None = None,
    ) -> EnvState:
        """One state of sections in any order and number; those of one key become one."""
        by_key: dict[SectionKey, list[Section]] = {}
        for section in sections:
            by_key.setdefault(section.key, []).append(section)
        joined = [_joined(parts) for parts in by_key.values()]
        joined.sort(key=lambda section: int(section.environments[0]))
        return cls(len(pending), tuple(joined), pending, observation, autoreset_mode)

    def part(self, start: int, stop: int) -> EnvState:
        """The state of environments `start` to `stop`, counted from 0 again."""
        sections = []
        for section in self.sections:
            chosen = np.flatnonzero((section.environments >= start) & (section.environments < stop))
            if chosen.size:
                sections.append(section.take(chosen, section.environments[chosen] - start))
        return replace(
            self,
            num_envs=stop - start,
            sections=tuple(sections),
            pending=self.pending[start:stop],
            observation=self.observation[start:stop],
        )

    @property
    def is_reset(self) -> bool:
        """Whether all environments had been reset at least once, so that they can be stepped."""
        return all((section.arrays["episode_steps"] >= 0).all() for section in self.sections)

    def keys(self) -> list[SectionKey]:
        """The key of each environment."""
        by_index = {int(index): section.key for section in self.sections for index in section.environments}
        return [by_index[index] for index in range(self.num_envs)]

    def require_fit(self, keys: Sequence[SectionKey], autoreset_mode: str | None) -> None:
        """Raise ValueError unless environments of these keys can continue from this state."""
        if len(keys) != self.num_envs:
            raise ValueError(
                f"This is a state of {self.num_envs} environments; it cannot be restored into {len(keys)}."
            )
        for index, (given, own) in enumerate(zip(self.keys(), keys, strict=True)):
            if given != own:
                raise ValueError(
                    f"The state does not fit environment {index}: in the state, {given.difference(own)}."
                    " Restore it into environments made like those it was captured from."
                )
        if self.pending.any() and self.autoreset_mode != autoreset_mode:
            raise ValueError(
                f"The state was captured with autoreset mode {self.autoreset_mode}, where"
                f" {int(self.pending.sum())} ended episodes still wait for their reset; it cannot continue with mode"
                f" {autoreset_mode}. Restore it into a vector environment of the same mode."
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, atomically: a crash leaves the previous file or the new one."""
        path = Path(path)
        header = {
            "format": _FORMAT,
            "version": _VERSION,
            "num_envs": self.num_envs,
            "autoreset_mode": self.autoreset_mode,
            "sections": [vars(section.key) for section in self.sections],
        }
        arrays: dict[str, NDArray[Any]] = {
            _HEADER: np.array(json.dumps(header)),
            _PENDING: self.pending,
            _OBSERVATION: self.observation,
        }
        for number, section in enumerate(self.sections):
            arrays[f"{number}/{_INDICES}"] = section.environments
            arrays.update((f"{number}/{name}", array) for name, array in section.arrays.items())
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                np.savez(file, **arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a state that `save` wrote.

        Raises:
            OSError: if the file cannot be opened.
            ValueError: if it is not such a file, is damaged, or is of another version.
        """
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            header = json.loads(str(arrays.pop(_HEADER)))
            known = header["format"] == _FORMAT
        except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"{os.fspath(path)!r} is not a whole {_FORMAT} file ({error}). It is foreign or was cut off."
            ) from error
        if not known or header["version"] != _VERSION:
            raise ValueError(
                f"{os.fspath(path)!r} has format {header['format']!r}, version {header.get('version')!r};"
                f" this release reads {_FORMAT!r}, version {_VERSION}."
            )
        return cls._of_file(header, arrays)

    @classmethod
    def _of_file(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        pending, observation = arrays.pop(_PENDING), arrays.pop(_OBSERVATION)
        parts: list[dict[str, NDArray[Any]]] = [{} for _ in header["sections"]]
        for name, array in arrays.items():
            number, _, rest = name.partition("/")
            parts[int(number)][rest] = array
        sections = tuple(
            Section(SectionKey(**key), part.pop(_INDICES), part)
            for key, part in zip(header["sections"], parts, strict=True)
        )
        return cls(header["num_envs"], sections, pending, observation, header["autoreset_mode"])


def _joined(parts: Sequence[Section]) -> Section:
    environments = np.concatenate([part.environments for part in parts])
    order = np.argsort(environments)
    arrays = {name: np.concatenate([part.arrays[name] for part in parts])[order] for name in parts[0].arrays}
    return Section(parts[0].key, environments[order], arrays)


def require_state(value: object) -> None:
    """Raise TypeError unless `value` is a state."""
    if not isinstance(value, EnvState):
        raise TypeError(
            f"restore_state() takes what capture_state() returned, got {value!r}. Load a file with EnvState.load(path)."
        )
