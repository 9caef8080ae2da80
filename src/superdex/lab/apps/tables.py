"""Tables and a console that all subcommands share."""

from __future__ import annotations

import sys
from collections.abc import Container

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["make_console", "make_table", "print_line"]

_WIDTH_OF_FILES = 140


def make_console() -> Console:
    """Standard output; wide enough for our tables when it is a file or a pipe."""
    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_FILES, highlight=False)


def print_line(console: Console, text: str) -> None:
    """Print `text` as it is and on one line, so that a path in it can be copied."""
    console.print(text, markup=False, soft_wrap=True)


def make_table(title: str, *columns: str, text: Container[str] = (), caption: str | None = None) -> Table:
    """An empty table; columns hold figures, set to the right, except the first and those in `text`."""
    table = Table(
        title=title,
        caption=caption,
        box=box.SIMPLE_HEAD,
        title_style="bold",
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
    )
    for index, column in enumerate(columns):
        is_text = index == 0 or column in text
        table.add_column(escape(column), justify="left" if is_text else "right", no_wrap=index == 0, overflow="fold")
    return table
