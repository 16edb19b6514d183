"""The site is made of the pages: all of them, with links that lead somewhere."""

import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from docs.build_site import (
    INDEX,
    dead_links,
    described,
    moved,
    pages,
    place,
    run_sphinx,
    sections,
    stage,
    version,
    words,
    write_texts,
    write_versions,
)
from tests.docs.markdown import DOCUMENTS, ROOT, anchors, blocks, links

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
# Seconds; a busy machine takes long to start a browser.
PATIENCE = 60.0
FIRST_FOUND = """() => {
    const item = document.querySelector("#search-results li");
    return item?.querySelector("p.context") && [item.querySelector("a").href, item.innerText];
}"""
IN_FRAMEWORKS = "How to: use it with a framework or driver"
# Those with the widest tables and the longest lines of code.
WIDE = (
    *("index.html", "tutorial/fastapi.html", "howto/move-from-celery.html", "reference/sql.html"),
    *("reference/settings.html", "reference/drivers.html", "explanation/comparison.html"),
    *("reference/python-api/workqueue.html", "reference/python-api/errors.html", "search.html"),
)
# Set by a script once the page is complete, so asked until it is there.
VERSIONS = """() => {
    const names = [...document.querySelectorAll(".sidebar-versions option")].map((e) => e.value);
    return names.length > 1 && names;
}"""
LEAVES = """() => {
    const select = document.querySelector(".sidebar-versions select");
    return select.onchange && addressIn("0.0.9", select.dataset.page);
}"""
OPEN = """() => document.querySelector("details") &&
    [...document.querySelectorAll("details[open] summary")].map((each) => each.innerText.trim())"""
CODE_FITS = """() => {
    const code = document.querySelector("article div.highlight pre");
    return document.readyState === "complete" && code && [code.scrollWidth, code.clientWidth];
}"""
WIDTH = "() => document.readyState === 'complete' && document.documentElement.scrollWidth"
SHARES = """() => {
    const table = document.querySelector("#of-a-node table");
    const [all, last] = [table, table.rows[1].cells[2]].map((e) => e.getBoundingClientRect().width);
    return {last: last / all, all, room: document.querySelector("article").clientWidth};
}"""
BLOCKS = """() => document.readyState === "complete" && {
    rows: getComputedStyle(document.querySelector("#features table").rows[1]).display,
    wide: document.querySelector("#features table").scrollWidth,
}"""
_CODE = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


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
    """What is sought first, tutorial, how-to, reference, explanation, in this order."""
    titles = [section.title for section in sections()]
    kinds = list(dict.fromkeys(title.partition(":")[0] for title in titles))
    assert kinds == ["Start", "Tutorial", "How to", "Reference", "Explanation", "The project"]


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


def test_the_first_page_has_buttons_and_cards(staged: Path) -> None:
    """The lists of pages are in the navigation beside it."""
    text = (staged / "index.md").read_text("utf-8")
    assert '<div class="buttons">' in text
    assert '<div class="cards">' in text
    assert "\n## " not in text


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the texts for programs."""
    folder = tmp_path_factory.mktemp("texts")
    write_texts(folder)
    return folder


def test_llms_txt_leads_to_every_page(texts: Path) -> None:
    """In the form that https://llmstxt.org proposes: a title, a summary, sections of links."""
    listed = {link.partition("#")[0] for link in links(texts / "llms.txt")}
    assert {place(page) for page in pages() if page != INDEX} <= listed
    text = (texts / "llms.txt").read_text("utf-8")
    assert text.startswith("# txqueue\n\n> Background jobs for Python")
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == ["# txqueue", *(f"## {section.title}" for section in sections())]


def test_one_text_has_every_page(texts: Path) -> None:
    """In the order of the navigation, each under its place, with its code as it is."""
    parts = re.split(r"^<!-- (\S+) -->\n", (texts / "llms-full.txt").read_text("utf-8"), flags=re.M)
    assert parts[1::2] == [place(page) for page in pages()]
    for page, text in zip(pages(), parts[2::2], strict=True):
        assert [each.text for each in blocks(page)] == _CODE.findall(text)


@pytest.mark.parametrize("name", ["llms.txt", "llms-full.txt", *map(place, pages())])
def test_links_of_texts_lead_to_files_beside_them(texts: Path, name: str) -> None:
    """Pages, pictures and programs."""
    file = texts / name
    gone = [link for link in links(file) if not is_there(file.parent, link)]
    assert not gone
    assert "<!-- run" not in file.read_text("utf-8")


def is_there(folder: Path, link: str) -> bool:
    """Return whether a link leads to a file, or to a heading of the same page."""
    name = link.partition("#")[0]
    return not name or (folder / name).exists()


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


def test_the_page_of_versions_leads_to_the_newest(tmp_path: Path) -> None:
    """To its first page and its first tutorial, above the list; to nothing while there is none."""
    write_versions(tmp_path)
    assert "newest" not in (tmp_path / "index.html").read_text("utf-8")
    for name in ("0.9.0", "0.10.0"):
        (tmp_path / name).mkdir()
    write_versions(tmp_path)
    lead, _, listed = (tmp_path / "index.html").read_text("utf-8").partition("<h2>")
    assert re.findall(r'href="([^"]+)"', lead) == [
        "0.10.0/index.html",
        "0.10.0/tutorial/first-queue.html",
    ]
    assert re.findall(r'href="([^"]+)"', listed) == ["0.10.0/index.html", "0.9.0/index.html"]


def test_dead_links_are_found(tmp_path: Path) -> None:
    """To a file that is missing, and to a place that the page has not."""
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here"></a><a href="b.html"></a><a href="a.html#there"></a>'
        '<a href="https://example.com/x"></a>'
    )
    assert list(dead_links(tmp_path)) == ["a.html: b.html", "a.html: a.html#there"]


@pytest.fixture
def in_browser(site: Path) -> Iterator[Callable[..., Any]]:
    """Opens a page on a phone, or with another width, and returns what a script finds in it."""
    playwright = pytest.importorskip("playwright.sync_api", exc_type=ImportError)
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    # In a thread of its own: playwright allows no running event loop in that of the test.
    with ThreadPoolExecutor(1) as thread, ExitStack() as stack:

        def started() -> Any:
            driver = stack.enter_context(playwright.sync_playwright())
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page()
            page.set_default_timeout(PATIENCE * 1000)
            return page

        def asked(page: Any, address: str, script: str, width: int) -> Any:
            page.set_viewport_size({"width": width, "height": 844})
            page.goto(f"{site.as_uri()}/{address}")
            return page.wait_for_function(script).json_value()

        page = thread.submit(started).result()
        yield lambda address, script, width=390: thread.submit(
            asked, page, address, script, width
        ).result()
        thread.submit(stack.pop_all().close).result()


FIRST: Final = {
    "pause": "howto/administer#pause-a-queue",
    "retry": "howto/write-handlers#retry",
    "Django": "howto/django",
    "cron": "howto/recurring-work#declare-it-on-the-class",
    # Words of other systems.
    "rate limit": "howto/administer#limit-a-queue-a-group-or-a-tenant",
    "Rate limiting": "howto/administer#limit-a-queue-a-group-or-a-tenant",
    "throttle": "howto/administer#limit-a-queue-a-group-or-a-tenant",
    "retries": "howto/write-handlers#retry",
    "dead letter": "howto/look-back#failures-by-kind",
    "debounce": "howto/relate-jobs#one-job-for-a-key",
    "unique": "howto/relate-jobs#one-job-for-a-key",
    "delay": "howto/write-handlers#priority-and-time",
    "priority": "howto/write-handlers#priority-and-time",
    "schedule": "howto/recurring-work#declare-it-on-the-class",
    "workflow": "howto/relate-jobs#wait-for-other-jobs",
    # Words that the page has not.
    "email": "howto/write-handlers",
    "undo a mistake": "howto/administer#undo-a-mistake",
    "celery max_tasks_per_child": "howto/size-a-node#replace-workers-now-and-then",
    "delay a job": "howto/write-handlers#priority-and-time",
    "how to install": "howto/install",
    "delete old jobs": "howto/prepare-the-database#keep-history-for-longer-or-shorter",
    "NotRegistered": "howto/administer#find-out-why-a-job-does-not-run",
    "too many connections": "howto/size-a-node#connections",
    "worker crash": "explanation/job-life#when-a-worker-process-dies",
}


@pytest.mark.slow("docs")
def test_search_finds_the_right_place_first(search: Callable[..., dict[str, list[str]]]) -> None:
    """Under the words of readers."""
    assert {asked: found[0] for asked, found in search(FIRST).items()} == FIRST


@pytest.mark.slow("docs")
def test_search_works_from_a_folder_of_files(in_browser: Callable[..., Any]) -> None:
    """It leads to the heading, and shows what stands there."""
    address, excerpt = in_browser("search.html?q=delete%20old%20jobs", FIRST_FOUND)
    assert address.endswith("howto/prepare-the-database.html#keep-history-for-longer-or-shorter")
    assert "30 days" in excerpt


@pytest.mark.slow("docs")
def test_every_word_leads_to_a_heading(site: Path) -> None:
    """That its page has."""
    assert len(words()) > 20
    for place_of_it in words():
        page, _, anchor = place_of_it.partition("#")
        text = (site / f"{page}.html").read_text("utf-8")
        assert not anchor or f'<section id="{anchor}">' in text, place_of_it


def test_a_page_is_described_by_its_first_sentence() -> None:
    """One that begins with a heading, by the first sentence below."""
    for page in pages():
        description = described(page).splitlines()[4]
        assert re.fullmatch(r'    description: "\w[^`]{20,}\."', description), page


@pytest.mark.slow("docs")
def test_what_settings_mean_has_half_of_their_table(in_browser: Callable[..., Any]) -> None:
    """On a screen of any width that shows the table whole."""
    for width in (800, 1200, 1920):
        shares = in_browser("reference/settings.html", SHARES, width)
        assert shares["last"] >= 0.5
        assert shares["all"] <= shares["room"]


@pytest.mark.slow("docs")
def test_pages_offer_the_versions_beside_them(in_browser: Callable[..., Any], site: Path) -> None:
    """And lead to the same page there, if it has that one."""
    listed = site.parent / "versions.js"
    text = listed.read_text("utf-8")
    try:
        listed.write_text(text + 'VERSIONS["0.0.9"] = ["index", "howto/django"];\n')
        for page, there in (("howto/django", "howto/django"), ("howto/fastapi", "index")):
            assert in_browser(f"{page}.html", VERSIONS) == [version(), "0.0.9"]
            address = in_browser(f"{page}.html", LEAVES)
            assert address == f"../../0.0.9/{there}.html"
    finally:
        listed.write_text(text)


@pytest.mark.slow("docs")
def test_the_group_of_the_page_is_open(in_browser: Callable[..., Any]) -> None:
    """And the first; the others are folded, but on the first page the second is open, too."""
    assert in_browser("howto/django.html", OPEN) == ["Start", IN_FRAMEWORKS]
    assert in_browser("index.html", OPEN) == ["Start", "Tutorial"]


@pytest.mark.slow("docs")
def test_pages_link_to_their_files_if_a_repository_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one, as here, no page does."""
    for address, found in (("", []), ("https://example.com/{file}", ["docs/README.md"])):
        monkeypatch.setenv("TXQUEUE_EDIT", address)
        source = tmp_path / f"source{len(address)}"
        source.mkdir()
        (source / "index.md").write_text(f"{described(INDEX)}# Title\n")
        (source / "search.js").touch()
        assert run_sphinx("html", source, tmp_path / "html") == 0
        text = (tmp_path / "html" / "index.html").read_text("utf-8")
        assert re.findall(r'href="https://example.com/([^"]+)"', text) == found


@pytest.mark.parametrize("page", WIDE)
@pytest.mark.slow("docs")
def test_no_page_is_wider_than_a_phone(in_browser: Callable[..., Any], page: str) -> None:
    """Wide tables and code scroll by themselves."""
    assert in_browser(page, WIDTH) <= 390


@pytest.mark.slow("docs")
def test_the_code_of_the_first_page_fits_a_phone(in_browser: Callable[..., Any]) -> None:
    """It is read without scrolling."""
    needed, shown = in_browser("index.html", CODE_FITS)
    assert needed <= shown


@pytest.mark.slow("docs")
def test_a_table_of_many_columns_is_read_on_a_phone(in_browser: Callable[..., Any]) -> None:
    """A row is a block, with the names of its columns; on a wide screen it stays a row."""
    narrow = in_browser("explanation/comparison.html", BLOCKS)
    assert narrow["rows"] == "block"
    assert narrow["wide"] <= 390
    assert in_browser("explanation/comparison.html", BLOCKS, 1440)["rows"] == "table-row"


@pytest.mark.slow("docs")
def test_the_site_is_built_without_a_warning(site: Path) -> None:
    """With a search that needs no server."""
    assert site.name == version()
    index = (site / "searchindex.js").read_text("utf-8")
    assert index.startswith("Search.setIndex(")
    assert all((site / place(page)).with_suffix(".html").exists() for page in pages())
    assert '"howto/troubleshoot"' in index
    assert '<a href="../index.html">all versions</a>' in (site / "index.html").read_text("utf-8")
