"""A finished small run, made once."""

from pathlib import Path

import pytest

from superdex.lab.apps.main import main
from tests.lab.apps.train import runs


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an uninterrupted run; not to be changed."""
    path = tmp_path_factory.mktemp("runs") / "finished"
    assert main(runs.arguments(path)) == 0
    return path
