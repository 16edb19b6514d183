"""The language: every sentence names the process that acts, in words that need no decoding.

`docs/reference/glossary.md` has the terms. What is rejected here hides who acts, or is a literal
translation that a reader must guess at.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.docs.markdown import DOCUMENTS, ROOT

REJECTED: Final = {
    r"whoever|whomever": "name the process or the caller",
    r"somebody|someone|anybody|nobody": "name the process or the caller",
    r"held for dead": "presumed dead",
    r"leases? (?:is|are) out": "the lease has expired",
    r"due no more": "paused, or not due",
    r"how manieth": "which one in the order",
    r"feels|is deaf|knocking at": "processes measure, fail to receive, connect",
    r"hears (?:of|which|the|whether)": "listens for, receives, learns of",
    r"for ever": "without limit, never, until ...",
}
"""A pattern, and what to say instead."""

PACKAGES: Final = (
    "system",
    "model",
    "policy",
    "store",
    "wire",
    "node",
    "worker",
    "client",
    "admin",
)
"""The packages whose language is held to the rules; the edges come after."""

EXEMPT: Final[dict[tuple[str, str], str]] = {}
"""(path below txqueue/, rejected word): the reason why it stays."""

FILES: Final = sorted(
    path for package in PACKAGES for path in (ROOT / "txqueue" / package).rglob("*.py")
)

SQL_FILES: Final = sorted((ROOT / "schema" / "functions").rglob("*.sql"))


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and strings of a module, each line with its number."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line


def rejected(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, word and remedy of each rejected word in a module."""
    for number, line in prose(source):
        for word, remedy in rejected_in(line):
            yield number, word, remedy


def rejected_in(line: str) -> Iterator[tuple[str, str]]:
    """Yield word and remedy of each rejected word in a line."""
    for pattern, remedy in REJECTED.items():
        for found in re.finditer(rf"\b(?:{pattern})\b", line, re.IGNORECASE):
            yield found[0].lower(), remedy


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_sentences_name_the_process_that_acts(path: Path) -> None:
    """In docstrings, comments, errors and log lines."""
    name = path.relative_to(ROOT / "txqueue").as_posix()
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word!r}: {remedy}"
        for number, word, remedy in rejected(path.read_text("utf-8"))
        if (name, word) not in EXEMPT
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", SQL_FILES, ids=lambda path: path.stem)
def test_comments_of_stored_functions_name_the_process_that_acts(path: Path) -> None:
    """And the errors that they raise."""
    assert not list(rejected_in(path.read_text("utf-8")))


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_name_the_process_that_acts(page: Path) -> None:
    """In what is written, not in samples of code."""
    written = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = [
        f"{word!r} in {line.strip()[:80]!r}: {remedy}"
        for line in written.splitlines()
        for word, remedy in rejected_in(line)
    ]
    assert not found, "\n".join(found)


def test_the_words_are_looked_for_in_prose_only() -> None:
    """A name in the code is no sentence."""
    source = 'nobody = 1  # Whoever reads this.\nsaid = "held for dead"\n'
    assert [(number, word) for number, word, _ in rejected(source)] == [
        (1, "whoever"),
        (2, "held for dead"),
    ]
