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


def flags_of(command, capsys):
    """The flags of a command, and what each takes, from its help."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    return dict(re.findall(r"^\W*--(\w+)(.*?)(?: {2}|$)", capsys.readouterr().out, re.MULTILINE))


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "list"])
def test_flag_that_is_no_list_is_refused_when_repeated(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    flags = flags_of(command, capsys)
    single = [name for name, takes in flags.items() if name != "help" and "[" not in takes]
    assert single
    for name in single:
        for spellings in ((f"--{name}", f"--{name.replace('_', '-')}"), (f"--{name}=1", f"--{name}")):
            assert main([command, spellings[0], "1", spellings[1], "2"]) == 2
            assert capsys.readouterr().err == f"superdex: error: --{name} is given twice: give it once.\n"


LISTS = {
    "bench": {
        "env": "Ant", "sections": "sweep", "num_workers": "1", "num_envs_per_worker": "1", "num_envs": "1",
        "num_threads": "1",
    },
    "check": {"cfg": "a=1", "only": "rows"},
    "run": {"cfg": "a=1"},
    "train": {"cfg": "a=1", "ray": "x", "hidden_sizes": "8"},
}  # fmt: skip
"""The options that take several values, and one of these for each."""


@pytest.mark.parametrize("command", COMMANDS)
def test_parts_of_a_list_are_taken_together(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    lists = {name for name, takes in flags_of(command, capsys).items() if "[" in takes}
    assert lists == LISTS.get(command, {}).keys()
    task = [] if command == "bench" else ["CartPole"]
    for name, value in LISTS.get(command, {}).items():
        flag, dashed = f"--{name}", f"--{name.replace('_', '-')}"
        whole = parse([command, *task, flag, value, value, value])
        assert parse([command, *task, flag, value, dashed, value, value]) == whole
        assert parse([command, *task, f"{dashed}={value}", value, f"{flag}={value}"]) == whole
        assert parse([command, *task, flag, flag, value, value, dashed, value]) == whole
        other = ["--no_workers"] if command == "check" else ["--seed", "3"]
        apart = parse([command, *task, flag, value, *other, dashed, value, value])
        assert apart == parse([command, *task, flag, value, value, value, *other])


def test_help_may_be_asked_for_twice(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["run", "--help", "--help"])
    assert "usage: superdex run" in capsys.readouterr().out


def test_named_flags_exist(capsys):
    known = {flag for command in COMMANDS for flag in flags_of(command, capsys)} | {"help"}
    named = {
        (flag, page.name) for page in PAGES if page.name != OTHER_PROGRAMS for flag in FLAG.findall(page.read_text())
    }
    assert named
    assert {(flag, page) for flag, page in named if flag not in known} == set()
