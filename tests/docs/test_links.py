"""The documents hang together: links lead somewhere, and nothing is left out."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import DOCUMENTS, ROOT, anchors, links
from txqueue_torture.checker import INVARIANTS
from txqueue_torture.scenario import known_scenarios


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    """To a file that is there, and to a heading that it has."""
    broken = []
    for link in links(document):
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_the_index_names_every_document() -> None:
    """Every document is in the index."""
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert set(DOCUMENTS) - linked == {index, ROOT / "README.md"}


def test_the_reliability_names_every_scenario_and_invariant() -> None:
    """Every scenario and invariant has a line."""
    text = (ROOT / "docs" / "explanation" / "reliability.md").read_text()
    unnamed = [name for name in known_scenarios() if f"`{name}`" not in text]
    unnamed += [name for name, _ in INVARIANTS if name != "fault" and f"| {name} |" not in text]
    assert not unnamed


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_name_of_each_file_is_above_its_block(page: Path) -> None:
    """A reader sees no comment: the paragraph above the block has the name, as code."""
    assert not list(nameless(page.read_text("utf-8")))


def nameless(text: str) -> Iterator[str]:
    """Find the files whose name is only in the comment above the block."""
    parts = re.split(r"^<!-- (?:file|append): (\S+) -->$", text, flags=re.MULTILINE)
    for before, name in zip(parts[::2], parts[1::2], strict=False):
        if f"`{name}`" not in before.rstrip().rpartition("\n\n")[2]:
            yield name


def test_a_block_without_the_name_of_its_file_is_found() -> None:
    """The paragraph above counts, not one before it."""
    shown = "Save this as `a.py`:\n\n<!-- file: a.py -->\n```python\n```\n"
    assert list(nameless(shown + "And so on:\n\n<!-- append: a.py -->\n")) == ["a.py"]
    assert not list(nameless(shown))
