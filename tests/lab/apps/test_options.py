"""What has one name on two commands is one thing, and what is one thing has one name."""

from __future__ import annotations

from dataclasses import fields
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


@pytest.mark.parametrize("command", ["check", "history", "play", "run", "list"])
def test_help_shows_numbers_as_n_and_no_python(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    printed = capsys.readouterr().out
    for text in ("INT", "FLOAT", "PATH", "None", "|"):
        assert f" {text} " not in printed


def test_numbers_are_typed_as_people_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "CartPole", "--num_steps", "1e0", "--num_envs", "0_2"]) == 0
    assert capsys.readouterr().out.count("still going") == 2


def test_directory_that_cannot_be_written_to_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(UserError, match=r"--video .*v\.mp4: the directory .* cannot be written to"):
        require_writable("video", tmp_path / "v.mp4", ".mp4")
