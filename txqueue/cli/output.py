"""Where results and notes go: results to standard output, all else to standard error."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from txqueue.cli.options import GlobalOptions

__all__ = ["bar", "console", "facts", "note", "notes", "show", "styled", "table"]

# JSON escapes the controls below a space by itself.
_UNSEEN = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
NO_WINDOW = 250
BAR = 24


def console(options: GlobalOptions, *, stderr: bool = False) -> Console:
    """Return a console that takes every text for what it is: no markup, no emoji codes."""
    from rich.console import Console

    named: dict[str, Any] = {"color_system": None} if options.no_color else {}
    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False, **named)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        # Nobody's window: a line cut to some width would be lost to whoever searches it.
        made.width = NO_WINDOW
    return made


def notes(options: GlobalOptions) -> Console:
    """Return the console of what is not a result."""
    return console(options, stderr=True)


def show(
    options: GlobalOptions,
    document: Mapping[str, Any],
    render: Callable[[], Iterable[RenderableType]],
) -> None:
    """Print a result: as JSON if asked to, else as tables.

    Args:
        options: Say which.
        document: What is printed as JSON.
        render: Returns what is printed for people.
    """
    if options.json:
        is_seen = sys.stdout.isatty()
        # On a terminal, what controls it or turns its text around is written as an escape.
        text = json.dumps(
            document, default=_as_json, ensure_ascii=False, indent=2 * is_seen or None
        )
        print(_UNSEEN.sub(_escaped, text) if is_seen else text)
        return
    out = console(options)
    for each in render():
        out.print(each)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def note(options: GlobalOptions, text: str) -> None:
    """Tell people something that is no result; programs that read JSON need it not."""
    if not options.json:
        notes(options).print(styled(text, "dim"), soft_wrap=True)


def styled(text: object, style: str = "") -> Text:
    """Return text that cannot drive the terminal, in a style."""
    from rich.text import Text

    from txqueue.model.humanize import plain

    return Text(plain(text), style=style)


def bar(done: float, total: float) -> Text:
    """Draw how much of something is done."""
    part = min(1.0, max(0.0, done / total)) if total else 1.0
    full = int(BAR * part)
    drawn = "█" * full + "░" * (BAR - full)
    return styled(f"{drawn} {int(100 * part):3d} %", "cyan")


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """Return a table. In a narrow window nothing is cut off, and the first column stays whole.

    Args:
        title: What stands above it.
        columns: The heads; one that starts with ``>`` is of numbers, which go to the right.
        rows: Cells: texts, or what rich can print.
    """
    from rich.table import Table

    made = Table(title=styled(title, "bold"), title_justify="left", box=None, pad_edge=False)
    made.header_style = "dim"
    made.padding = (0, 2, 0, 0)
    for place, head in enumerate(columns):
        # What the first one holds is what people copy: a number, a name, a fingerprint.
        justify: Any = "right" if head.startswith(">") else "left"
        made.add_column(head.lstrip(">"), justify=justify, overflow="fold", no_wrap=place == 0)
    for row in rows:
        made.add_row(*(cell if hasattr(cell, "__rich_console__") else styled(cell) for cell in row))
    return made


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Return names and values below one another."""
    made = table("", ["name", "value"], ([styled(name, "dim"), value] for name, value in pairs))
    made.title, made.show_header = None, False
    return made


def _as_json(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)
