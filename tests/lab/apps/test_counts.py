"""Numbers on the command line."""

import pytest

from superdex.lab.apps.commands import parse
from superdex.lab.apps.counts import parse_count
from superdex.lab.apps.train.command import Train


@pytest.mark.parametrize(
    ("text", "count"),
    [("300000", 300_000), ("300_000", 300_000), ("3e5", 300_000), ("3.5E2", 350), ("0", 0), ("-1", -1)],
)
def test_counts_are_taken_as_people_write_them(text, count):
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["3.5", "1e-3", "1e999999999", "nan", "inf", "", "3k", "None", "1,000"])
def test_what_is_no_count_is_refused(text):
    with pytest.raises(ValueError, match=rf"must be a whole number, such as 16, 300_000 or 3e5, got {text!r}\."):
        parse_count(text)


def test_training_takes_them():
    flags = ["--total-steps", "3e5", "--checkpoint_every", "3_000", "--hidden_sizes", "64", "6.4e1", "--gamma", "1"]

    command = parse(["train", "CartPole", *flags])

    assert isinstance(command, Train)
    assert (command.recipe.total_steps, command.checkpoint_every) == (300_000, 3000)
    assert (command.recipe.hidden_sizes, command.recipe.gamma) == ((64, 64), 1.0)


@pytest.mark.parametrize(
    ("flag", "text", "rule"),
    [
        ("total_steps", "3.5", "must be a whole number, such as 16, 300_000 or 3e5, got '3.5'."),
        ("seed", "x", "must be a whole number, such as 16, 300_000 or 3e5, got 'x'."),
        ("hidden_sizes", "1e-3", "must be a whole number, such as 16, 300_000 or 3e5, got '1e-3'."),
        ("gamma", "x", "must be a number, such as 0.99 or 3e-4, got 'x'."),
    ],
)
def test_refusal_names_the_flag_and_no_python(flag, text, rule, capsys):
    with pytest.raises(SystemExit):
        parse(["train", "CartPole", f"--{flag}", text])

    words = " ".join(capsys.readouterr().err.replace("\u2502", " ").split())
    assert f"Error parsing --{flag}: {rule}" in words
