"""The commands that README and docs show are commands, and the flags that they name are flags."""

import re
import shlex
from pathlib import Path

import pytest

from superdex.lab.apps.commands import parse
from superdex.lab.apps.main import main

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = ["bench", "check", "history", "list", "play", "run", "train"]
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(superdex [^`]+)`")
OTHER_PROGRAMS = "other_libraries.md"
"""The page whose flags are those of the examples."""
FLAG = re.compile(r"(?<=`)--(\w+)")


def command_lines():
    for page in PAGES:
        text = page.read_text()
        lines = [line for block in SHELL.findall(text) for line in block.replace("\\\n", " ").splitlines()]
        for line in lines + [" ".join(found.split()) for found in INLINE.findall(text)]:
            words = shlex.split(line, comments=True)
            is_sentence = line not in lines and words[-1].startswith("--")  # names a flag, without a value
            if words[:1] == ["superdex"] and not is_sentence and "--help" not in words:
                yield pytest.param(words[1:], id=f"{page.name}: {line}")


@pytest.mark.parametrize("words", [*command_lines()])
def test_shown_commands_can_be_typed(words):
    if len(words) == 1:  # the name of a command, in a sentence
        assert words[0] in COMMANDS
    else:
        assert type(parse(words)).__name__.lower() == words[0]


def test_named_flags_exist(capsys):
    known = set()
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        known |= {*re.findall(r"--(\w+)", capsys.readouterr().out)}
    named = {
        (flag, page.name) for page in PAGES if page.name != OTHER_PROGRAMS for flag in FLAG.findall(page.read_text())
    }
    assert named
    assert {(flag, page) for flag, page in named if flag not in known} == set()
