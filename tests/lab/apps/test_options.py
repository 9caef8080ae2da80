"""What has one name on two commands is one thing, and what is one thing has one name."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from superdex.lab.apps.check import Check
from superdex.lab.apps.errors import UserError
from superdex.lab.apps.history import History
from superdex.lab.apps.main import main
from superdex.lab.apps.options import require_writable
from superdex.lab.apps.play import Play
from superdex.lab.apps.run import Run

COMMANDS = [Check, History, Play, Run]


@pytest.mark.parametrize("name", ["cfg", "task", "video", "video_quality", "video_seconds", "seed", "num_envs"])
def test_option_of_one_name_has_one_type_and_default(name: str) -> None:
    found: list[tuple[Any, Any]] = [
        (get_type_hints(command)[name], each.default)
        for command in COMMANDS
        for each in fields(command)
        if each.name == name
    ]
    assert found
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("command", [History, Play, Run])
def test_video_options_say_so(command: type) -> None:
    names = {each.name for each in fields(command)}
    assert {"video", "video_quality"} <= names
    assert not names & {"quality", "length", "fps", "output"}
    assert "seconds" not in names or command is Run  # there, how long to run


@pytest.fixture(params=["bench", "check", "history", "list", "play", "run", "train"])
def shown(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The lines of a command's help, on a terminal on which each text has room in one."""
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        main([request.param, "--help"])
    return [line.replace("\u2502", " ").rstrip() for line in capsys.readouterr().out.splitlines()]


def test_help_shows_numbers_as_n_and_no_python(shown: list[str]) -> None:
    words = " ".join(shown).split()
    assert "usage:" in words
    assert not {"INT", "FLOAT", "STR", "PATH", "None", "|"} & {word.strip("()[]{}") for word in words}


def test_help_breaks_lines_only_where_the_terminal_does(shown: list[str]) -> None:
    """The parser keeps the line breaks of an option's docstring, which therefore has none."""
    assert any(line.startswith("  -h, --help") for line in shown)
    texts = [line.startswith("      ") for line in shown]
    assert not any(one and other for one, other in pairwise(texts))


def test_numbers_are_typed_as_people_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "CartPole", "--num_steps", "1e0", "--num_envs", "0_2"]) == 0
    assert capsys.readouterr().out.count("still going") == 2


def test_directory_that_cannot_be_written_to_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(UserError, match=r"--video .*v\.mp4: the directory .* cannot be written to"):
        require_writable("video", tmp_path / "v.mp4", ".mp4")
