"""The table of the five systems' capabilities names tests that exist, for every line."""

import re

import pytest

from tests.docs.markdown import ROOT

SYSTEMS = ROOT / "docs" / "explanation" / "systems.md"
COUNTS = {"A": 13, "B": 7, "C": 9, "D": 9, "E": 7}
_ROW = re.compile(r"^\| ([A-E]\d+) [^|]*\|[^|]*\|([^|]*)\|$", re.MULTILINE)
_NAMED = re.compile(r"`(test_\w+)`")

KNOWN = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text("utf-8"), re.MULTILINE)
}
LINES = dict(_ROW.findall(SYSTEMS.read_text("utf-8")))


def test_every_line_has_its_row() -> None:
    """None of A1 to E7 is left out."""
    assert list(LINES) == [
        f"{system}{number}" for system, count in COUNTS.items() for number in range(1, count + 1)
    ]


@pytest.mark.parametrize("line", LINES)
def test_what_a_line_names_exists(line: str) -> None:
    """Each is shown by one test."""
    [name] = _NAMED.findall(LINES[line])
    assert name in KNOWN
