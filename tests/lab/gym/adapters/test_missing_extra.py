"""Without their libraries the adapters say what to install."""

from __future__ import annotations

import importlib
import runpy
import sys

import pytest


@pytest.mark.parametrize("name", ["sb3", "ppo"])
def test_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = importlib.import_module(f"superdex.lab.gym.adapters.{name}").__file__
    assert path is not None
    for module in [module for module in sys.modules if module.startswith("stable_baselines3")]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "superdex-gym\[train\]"'):
        runpy.run_path(path)
