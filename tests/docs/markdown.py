"""Reads the documents: their fenced blocks, their headings, their links.

A comment in the line above a block says what a test does with it:

    <!-- file: NAME -->         the block is a file of that name
    <!-- append: NAME -->       the block comes at the end of that file
    <!-- background: NAME -->   the command runs on, under that name, once it has said what it shows
    <!-- run: until -->         the command is run again until it says what the block shows
    <!-- said: NAME -->         the command of that name prints this, sooner or later
    <!-- end: NAME -->          after these commands the one of that name ends by itself
    <!-- fails -->              each command ends with an error, and prints this
    <!-- not run -->            for readers only
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENTS: Final = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

_NOTE: Final = re.compile(r"<!-- ([a-z ]+)(?:: (\S+))? -->")
_FENCE: Final = "```"
_LINK: Final = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")


@frozen
class Block:
    """A fenced block of a document.

    Attributes:
        language: What stands after the fence.
        action: What the comment above it says; empty without one.
        name: What it says after the colon.
        text: What is between the fences.
    """

    language: str
    action: str
    name: str
    text: str


def blocks(document: Path) -> Iterator[Block]:
    """Find the fenced blocks of a document, in order."""
    lines = iter(document.read_text("utf-8").splitlines())
    before = ""
    for line in lines:
        if line.startswith(_FENCE):
            note = _NOTE.fullmatch(before)
            action, name = (note[1], note[2] or "") if note else ("", "")
            yield Block(line.removeprefix(_FENCE), action, name, _until_fence(lines))
        before = line


def _until_fence(lines: Iterator[str]) -> str:
    inside = []
    for line in lines:
        if line == _FENCE:
            break
        inside.append(f"{line}\n")
    return "".join(inside)


def prose(document: Path) -> str:
    """Return a document without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", document.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def links(document: Path) -> Iterator[str]:
    """Find where a document's links go, those into the web left out."""
    for found in _LINK.finditer(prose(document)):
        if "://" not in found[1]:
            yield found[1]


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub makes of a document's headings."""
    heads = re.findall(r"^#+ (.+)$", prose(document), flags=re.MULTILINE)
    found = [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads]
    earlier = [found[:place].count(anchor) for place, anchor in enumerate(found)]
    return {f"{each}-{n}" if n else each for each, n in zip(found, earlier, strict=True)}


def section(document: Path, heading: str) -> str:
    """Return what stands under a heading, up to the next heading of any kind.

    Raises:
        LookupError: When there is no such heading.
    """
    parts = re.split(r"^(#+ .+)$", document.read_text("utf-8"), flags=re.MULTILINE)
    for head, body in zip(parts[1::2], parts[2::2], strict=True):
        if head.lstrip("# ") == heading:
            return body
    raise LookupError(f"{document.name} has no heading {heading}")
