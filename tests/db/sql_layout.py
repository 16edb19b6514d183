"""Lays out SQL of the catalogue for a reader: short expressions, lines of one width, comments."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

__all__ = ["beside", "plain", "remark", "tabulated", "title", "wrapped"]

WIDTH: Final = 120
# A longer line of code has its comment below, so that the comments of the others stay near.
NEAR: Final = 64

_STRING: Final = re.compile(r"""('(?:[^']|'')*'|"[^"]*")""")
_TYPE: Final = r"::[a-z]+(?: precision)?(?:\[\])?"
_CAST: Final = re.compile(rf"(\b\d+|\d\)|['\]]|\bnull)(?:{_TYPE})+")
_NUMBER: Final = re.compile(r"'([\d.]+)'(?=::numeric|::double)")
_ANY: Final = re.compile(r"= any \(array\[([^]]*)\]\)")
_BETWEEN: Final = re.compile(r"(?<![^ (])([\w()]+) >= (\S+) and \1 <= ")
_wrap: Final = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)


def plain(sql: str) -> str:
    """Return SQL of the catalogue as a person would write it.

    Keywords are in lower case, constants have no casts, and comparisons with several values are
    written with `in` and `between`.
    """
    parts = _STRING.split(sql)
    parts[::2] = [part.lower() for part in parts[::2]]
    text = "".join(parts).replace("timestamp with time zone", "timestamptz")
    text = _ANY.sub(r"in (\1)", _CAST.sub(r"\1", _NUMBER.sub(r"\1", text)))
    return _BETWEEN.sub(r"\1 between \2 and ", text)


def title(text: str) -> Iterator[str]:
    """Yield the heading of a section."""
    yield from ["", f"-- {text} ".ljust(WIDTH, "-")]


def remark(text: str) -> Iterator[str]:
    """Yield a comment on lines of its own; the lines of a text that has some stay."""
    for line in text.splitlines():
        yield from _wrap(line, WIDTH, initial_indent="-- ", subsequent_indent="-- ")


def wrapped(code: str, note: str = "") -> Iterator[str]:
    """Yield a statement, broken after commas and before `returns`, and a comment behind it."""
    behind = f"  -- {note}" if note else ""
    kept = re.sub(r"(?<!,) (?!returns )", "\N{NO-BREAK SPACE}", code)
    kept += behind.replace(" ", "\N{NO-BREAK SPACE}")
    for line in _wrap(kept, WIDTH, subsequent_indent="    "):
        yield line.replace("\N{NO-BREAK SPACE}", " ")


def beside(lines: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield lines of code, each with its comment beside it, or below it if the code is long."""
    widths = [len(code) for code, comment in lines if comment]
    start = 2 + max((width for width in widths if width <= NEAR), default=NEAR)
    for code, comment in lines:
        notes = [f"-- {line}" for line in _wrap(comment, WIDTH - start - 3)]
        if not notes or len(code) + 2 > start:
            yield code
        else:
            yield f"{code:<{start}}{notes.pop(0)}"
        yield from (" " * start + note for note in notes)


def tabulated(first: str, second: str, third: str) -> Iterator[str]:
    """Yield a row of a table in comments; its third cell may take several lines."""
    start = f"-- {first:<18}{second:<11}"
    yield from _wrap(third, WIDTH, initial_indent=start, subsequent_indent=f"--{'':<30}")
