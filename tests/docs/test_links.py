"""The documents hang together: links lead somewhere, and nothing is left out."""

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
