"""Every Python block of README and docs runs, and every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
GUARD = 'if __name__ == "__main__":'


def scripts() -> list[tuple[str, str]]:
    """The scripts that a reader would type: each guarded block by itself, a page's other blocks one after another."""
    found = []
    for page in PAGES:
        blocks = BLOCK.findall(page.read_text())
        found += [(f"{page.name}-script", block) for block in blocks if GUARD in block]
        plain = [block for block in blocks if GUARD not in block]
        if plain:
            found.append((page.name, "\n".join(plain)))
    return found


@pytest.mark.parametrize("code", [pytest.param(code, id=name) for name, code in scripts()])
def test_code_blocks_run(code: str, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    # the README's training run is long: its number of steps is all that is changed
    script.write_text(code.replace("num_training_steps = 1000", "num_training_steps = 20"))
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
