"""Scripts that tests run in a new interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[4]


def start_script(tmp_path: Path, source: str) -> subprocess.Popen[str]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(source))
    search = os.pathsep.join([str(ROOT), *sys.path])
    return subprocess.Popen(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONPATH": search},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_script(tmp_path: Path, source: str) -> tuple[int, str, str]:
    script = start_script(tmp_path, source)
    out, err = script.communicate(timeout=20)
    return script.returncode, out, err
