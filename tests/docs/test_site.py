"""The site is made of the pages: all of them, with links that lead somewhere."""

from pathlib import Path

import pytest

from docs.build_site import (
    INDEX,
    build,
    dead_links,
    moved,
    pages,
    place,
    sections,
    stage,
    version,
    write_texts,
    write_versions,
)
from tests.docs.markdown import DOCUMENTS, ROOT, anchors, links


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what Sphinx reads."""
    folder = tmp_path_factory.mktemp("staged")
    stage(folder)
    return folder


def test_every_document_is_a_page() -> None:
    """Each under one place of its own; the README at the root is the index's other form."""
    assert set(DOCUMENTS) - set(pages()) == {ROOT / "README.md"}
    places = [place(page) for page in pages()]
    assert len(set(places)) == len(places)


def test_the_navigation_has_the_four_kinds_of_pages() -> None:
    """Tutorial, how-to, reference, explanation, in this order."""
    titles = [section.title for section in sections()]
    kinds = list(dict.fromkeys(title.partition(":")[0] for title in titles))
    assert kinds == ["Tutorial", "How to", "Reference", "Explanation", "The project"]


@pytest.mark.parametrize("page", pages(), ids=place)
def test_links_lead_somewhere_in_the_site(staged: Path, page: Path) -> None:
    """To a page, to its heading, or to a file that is copied."""
    file = staged / place(page)
    for link in links(file):
        name, _, anchor = link.partition("#")
        target = (file.parent / name).resolve() if name else file
        assert target.is_relative_to(staged)
        assert target.exists(), link
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


def test_texts_for_programs_have_every_page(tmp_path: Path) -> None:
    """llms.txt links to each page that lies beside it, and one file has all of them."""
    write_texts(tmp_path)
    listed = {link.partition("#")[0] for link in links(tmp_path / "llms.txt")}
    assert {place(page) for page in pages() if page != INDEX} <= listed
    assert all((tmp_path / place(page)).exists() for page in pages())
    assert (tmp_path / "llms.txt").read_text("utf-8").startswith("# txqueue\n\n> A work queue")
    whole = (tmp_path / "llms-full.txt").read_text("utf-8")
    assert all(moved(page).rstrip() in whole for page in pages())


def test_code_is_copied_as_it_is() -> None:
    """A block that looks like a link keeps its text."""
    page = ROOT / "docs" / "howto" / "write-handlers.md"
    blocks = page.read_text("utf-8").split("\n```")[1::2]
    assert blocks == moved(page).split("\n```")[1::2]


def test_versions_are_listed_newest_first(tmp_path: Path) -> None:
    """By their numbers; other folders are left out."""
    for name in ("0.9.0", "0.10.0", "drafts"):
        (tmp_path / name).mkdir()
    write_versions(tmp_path)
    text = (tmp_path / "index.html").read_text("utf-8")
    assert "drafts" not in text
    assert text.index("0.10.0/index.html") < text.index("0.9.0/index.html")


def test_dead_links_are_found(tmp_path: Path) -> None:
    """To a file that is missing, and to a place that the page has not."""
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here"></a><a href="b.html"></a><a href="a.html#there"></a>'
        '<a href="https://example.com/x"></a>'
    )
    assert list(dead_links(tmp_path)) == ["a.html: b.html", "a.html: a.html#there"]


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """With a search that needs no server."""
    for name in ("sphinx", "myst_parser", "furo", "sphinx_copybutton"):
        pytest.importorskip(name)
    folder = build(tmp_path / "site", tmp_path / "source")
    assert folder == tmp_path / "site" / version()
    index = (folder / "searchindex.js").read_text("utf-8")
    assert index.startswith("Search.setIndex(")
    assert all((folder / place(page)).with_suffix(".html").exists() for page in pages())
    assert '"howto/troubleshoot"' in index
    assert '<a href="../index.html">all versions</a>' in (folder / "index.html").read_text("utf-8")
