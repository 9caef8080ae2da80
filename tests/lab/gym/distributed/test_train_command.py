"""`superdex train --ray`: here, because the cluster is."""

from __future__ import annotations

from pathlib import Path

import pytest

from superdex.lab.apps.main import main
from tests.lab.apps.train import runs

HALF, WHOLE = 3 * runs.STEPS_PER_ITERATION, 6 * runs.STEPS_PER_ITERATION


@pytest.mark.usefixtures("cluster")
def test_trains_on_a_cluster_and_is_resumed_on_another_split_to_the_bit(tmp_path: Path) -> None:
    path, expected = tmp_path / "ray", tmp_path / "expected"
    assert main(runs.arguments(path, "--ray", num_workers=2, total_steps=HALF)) == 0
    assert runs.resume(path, "--num-workers", "1", "--total-steps", str(WHOLE)) == 0

    assert main(runs.arguments(expected, total_steps=WHOLE)) == 0
    runs.assert_same_run(path, expected)
