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
    r"(?:some|any|no|every)body(?:'s)?|someone|anyone|everyone": "name the process or the caller",
    r"he|him|himself|his": "name the process or the caller",
    r"held? for (?:dead|lost)|held? (?:it|this one) for dead": "presumed dead, counts as lost",
    r"leases? (?:is|are|was) out": "the lease has expired",
    r"tokens? (?:is|are|was) out|token that (?:is|was) out": "a stale token",
    r"due no more": "paused, or not due",
    r"how manieth|how-many'th": "which one in the order",
    r"feels|is deaf|knock(?:s|ed|ing)": "processes measure, fail to receive, connect",
    r"hears?|heard (?:of|from|which|the|whether)|is heard": "listens for, receives, learns of",
    r"for ever": "without limit, never, until ...",
    r"so many as|so long as|at most so (?:many|much|often)": "as many as, up to a number",
    r"befalls?|befell|befallen": "happens to",
    r"bec[ao]mes? of|become of": "the outcome, the result, what happens to",
    r"knows? of|knows? no": "has, lists, receives",
    r"whom": "name the process, the peer or the job",
    r"hangs? up|hung up": "closes the connection, disconnects",
    r"take[sn]? (?:\w+ ){0,4}along|took (?:\w+ ){0,4}along": "coalesce, include, carry",
    r"(?:am|is|are|was|were|be|been) told": "is notified, gets, receives",
    r"vouch(?:es|ed)?|vouching": "renew the lease for a peer",
    r"says? of": "reports, describes",
    r"mends?|mended|mending": "fix, repair",
    r"of late(?! ends)": "recently",
    r"by (?:its|their) own word": "declared",
    r"last words?": "the last output, the last record",
    r"(?:the )?(?:short|ordinary) road": "direct dispatch, a claim",
    r"in (?:its|their|nobody's) hands": "held by",
    r"would (?:like|want) to|wants? to": "processes do not want",
}
"""A pattern, and what to say instead."""
EDGES: Final = r"(?<![\w/.-])(?:{})(?![\w/-])"
ANY_REJECTED: Final = re.compile(EDGES.format("|".join(REJECTED)), re.IGNORECASE)

EXEMPT: Final[dict[tuple[str, str], str]] = {}
"""(path from the root, rejected words): the reason why they stay."""

PYTHON_FILES: Final = sorted(
    path
    for folder in ("txqueue", "laboratory", "tests", "benchmarks", "docs")
    for path in (ROOT / folder).rglob("*.py")
    if path != Path(__file__)
)

SQL_FILES: Final = sorted((ROOT / "schema").rglob("*.sql"))


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and strings of a module, each line with its number."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line


def sql_prose(source: str) -> str:
    """Return the comments and string literals of SQL."""
    return "\n".join(re.findall(r"--.*|'(?:[^']|'')*'", source))


def rejected(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, word and remedy of each rejected word in a module."""
    # Most modules have none anywhere, and need not be read as Python.
    for number, line in prose(source) if ANY_REJECTED.search(source) else ():
        for word, remedy in rejected_in(line):
            yield number, word, remedy


def rejected_in(line: str) -> Iterator[tuple[str, str]]:
    """Yield word and remedy of each rejected word in a line."""
    for pattern, remedy in REJECTED.items() if ANY_REJECTED.search(line) else ():
        for found in re.finditer(EDGES.format(pattern), line, re.IGNORECASE):
            yield found[0].lower(), remedy


def name_of(path: Path) -> str:
    """Return a path from the root, as the tests and `EXEMPT` name it."""
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_sentences_name_the_process_that_acts(path: Path) -> None:
    """In docstrings, comments, errors and log lines."""
    found = [
        f"{name_of(path)}:{number}: {word!r}: {remedy}"
        for number, word, remedy in rejected(path.read_text("utf-8"))
        if (name_of(path), word) not in EXEMPT
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", SQL_FILES, ids=name_of)
def test_comments_of_sql_files_name_the_process_that_acts(path: Path) -> None:
    """And the errors that stored functions raise."""
    assert not [
        (word, remedy)
        for word, remedy in rejected_in(sql_prose(path.read_text("utf-8")))
        if (name_of(path), word) not in EXEMPT
    ]


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_pages_name_the_process_that_acts(page: Path) -> None:
    """In what is written, not in samples of code."""
    written = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = [
        f"{word!r} in {line.strip()[:80]!r}: {remedy}"
        for line in written.splitlines()
        for word, remedy in rejected_in(line)
        if (name_of(page), word) not in EXEMPT
    ]
    assert not found, "\n".join(found)


def test_the_words_are_looked_for_in_prose_only() -> None:
    """A name in the code is no sentence."""
    source = 'nobody = 1  # Whoever reads this.\nsaid = "held for dead"\n'
    assert [(number, word) for number, word, _ in rejected(source)] == [
        (1, "whoever"),
        (2, "held for dead"),
    ]


def test_every_exemption_is_needed() -> None:
    """One that exempts no word hides the next one."""
    idle = [
        (name, word)
        for name, word in EXEMPT
        if word not in {found for found, _ in rejected_in((ROOT / name).read_text("utf-8"))}
    ]
    assert not idle
