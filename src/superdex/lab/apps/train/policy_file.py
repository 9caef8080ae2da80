"""A trained policy as one file: its weights, its normaliser, and what task it is for.

    save_policy(path, policy, PolicyInfo(task_id="superdex_gym/CartPole-v0", steps=1_000_000, ...))
    policy, info = read_policy(path)

A NumPy `.npz` without pickle. To act with it takes NumPy only, no learning library.
"""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from superdex.lab.gym.rollouts import GaussianMlpPolicy

__all__ = ["PolicyInfo", "finite_or_none", "read_policy", "save_policy"]

_FORMAT, _VERSION, _HEADER = "superdex-gym policy", 1, "header"


@dataclass(frozen=True, kw_only=True)
class PolicyInfo:
    """Where a policy comes from."""

    task_id: str
    """As Gymnasium knows the task, "superdex_gym/CartPole-v0"."""
    cfg: dict[str, Any] = field(default_factory=dict)
    """Fields of the task's configuration that were changed."""
    steps: int
    """Control steps of training before it, summed over the environments."""
    iteration: int
    """Updates before it."""
    return_mean: float | None
    """Mean return in training when it was taken, over the last episodes; None if none had ended."""
    length_mean: float | None
    """Mean length of the same episodes [control steps]."""

    @property
    def label(self) -> str:
        """In a line: "iteration 31, 992,000 steps, return 964.0"."""
        shown = "none yet" if self.return_mean is None else f"{self.return_mean:,.1f}"
        return f"iteration {self.iteration:,}, {self.steps:,} steps, return {shown}"


def save_policy(path: Path, policy: GaussianMlpPolicy, info: PolicyInfo) -> None:
    """Write the policy, deterministic, to `path`, which ends in `.npz`."""
    header = json.dumps({"format": _FORMAT, "version": _VERSION, **asdict(info)})
    np.savez(path, **{_HEADER: np.array(header)}, **policy.as_deterministic().state())  # type: ignore[arg-type]


def read_policy(path: Path) -> tuple[GaussianMlpPolicy, PolicyInfo]:
    """What `save_policy` wrote.

    Raises:
        OSError: if the file cannot be opened.
        ValueError: if it is not such a file, is damaged, or is of another version.
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop(_HEADER)))
        is_ours, version = header.pop("format") == _FORMAT, header.pop("version")
        if is_ours and version == _VERSION:
            return GaussianMlpPolicy.from_state(arrays), PolicyInfo(**header)
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{str(path)!r} is not a whole {_FORMAT} file.") from error
    if not is_ours:
        raise ValueError(f"{str(path)!r} is not a {_FORMAT} file.")
    raise ValueError(f"{str(path)!r} is of version {version}; this release reads version {_VERSION}.")


def finite_or_none(value: float) -> float | None:
    """`value` for a `PolicyInfo` or a JSON file, where nan is None."""
    return value if math.isfinite(value) else None
