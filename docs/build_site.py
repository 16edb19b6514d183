"""Builds the documentation as a site: HTML, the pages as Markdown, llms.txt and one text of all.

    python docs/build_site.py [FOLDER]

It writes FOLDER/VERSION (FOLDER is build/site by default) and FOLDER/index.html, which lists the
versions that the folder has. What is linked from docs/README.md is a page; its sections are those
of the navigation. Warnings of Sphinx and dead links are errors.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from textwrap import shorten
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

ROOT: Final = Path(__file__).resolve().parent.parent
INDEX: Final = ROOT / "docs" / "README.md"
GLOSSARY: Final = ROOT / "docs" / "reference" / "glossary.md"
SEARCH: Final = ROOT / "docs" / "site" / "search.js"
WORDS: Final = ROOT / "docs" / "site" / "words.toml"
EXCERPT: Final = 300
"""The longest excerpt under a heading, in characters."""
SOURCE: Final = ROOT / "build" / "site-source"
SITE: Final = ROOT / "build" / "site"

_FENCED: Final = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"(?<=\]\()([^)\s:#]+)(#[^)\s]*)?(?=\))")
_NOT_READ: Final = re.compile(r"^<!-- [a-z ]+(?:: \S+)? -->\n(?=```)|^</?div.*>\n\n", re.MULTILINE)
_HEADING: Final = re.compile(r"^##+ (.+)$", re.MULTILINE)
_MEANT: Final = re.compile(r"^\| ([^|]+) \| [^|]*?\]\(([^)#]+)#([^)]+)\)", re.MULTILINE)
_ANY_HEADING: Final = re.compile(r"^#+ (.+)\n", re.MULTILINE)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_LINKED: Final = re.compile(r"!?\[([^]]*)\]\([^)]*\)")
_VERSION_FOLDER: Final = re.compile(r"\d+(\.\d+)+")


class Section(NamedTuple):
    """A part of the navigation: its title, and the files of its pages."""

    title: str
    pages: list[Path]


def version() -> str:
    """Return the version of the package."""
    return (ROOT / "VERSION").read_text("utf-8").strip()


def sections() -> Iterator[Section]:
    """Read the navigation from the index, a section for each heading that has pages under it."""
    _, *parts = _HEADING.split(INDEX.read_text("utf-8"))
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        found = (_target(INDEX, link[1]) for link in _LINK.finditer(text))
        if pages := [page for page in dict.fromkeys(found) if page.suffix == ".md"]:
            yield Section(title, pages)


def pages() -> list[Path]:
    """Return the files of all pages in the order of the navigation; the index is the first."""
    listed = [INDEX, *(page for section in sections() for page in section.pages)]
    return list(dict.fromkeys(listed))


def _target(page: Path, link: str) -> Path:
    return Path(os.path.normpath(page.parent / link))


def place(file: Path) -> str:
    """Return where a file stands in the site's source."""
    path = file.relative_to(ROOT)
    if file in (INDEX, ROOT / "README.md"):
        return "index.md"
    if path.parts[0] == "docs" and path.parts[1] != "examples":
        return path.relative_to("docs").as_posix()
    if path.suffix == ".md":
        name = path.parent.name if path.stem == "README" else path.stem
        return f"project/{name.lower().replace('_', '-')}.md"
    return f"files/{path.as_posix()}"


def moved(page: Path, folder: str | None = None) -> str:
    """Return the text of a page with links that fit a folder of the site, or the page's place."""
    if folder is None:
        folder = os.path.dirname(place(page)) or "."

    def changed(link: re.Match[str]) -> str:
        path = os.path.relpath(place(_target(page, link[1])), folder)
        return Path(path).as_posix() + (link[2] or "")

    # The texts between blocks have the even places.
    parts = _FENCED.split(page.read_text("utf-8"))
    parts[::2] = [_LINK.sub(changed, text) for text in parts[::2]]
    return "".join(parts)


def _navigation() -> Iterator[str]:
    """Yield the end of the site's first page: the other versions, and the navigation of Sphinx."""
    yield f'\n<p>This is version {version()}; see <a href="../index.html">all versions</a>.</p>\n'
    for title, files in sections():
        names = "\n".join(place(page).removesuffix(".md") for page in files if page != INDEX)
        yield f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{names}\n```\n"


def linked_files() -> set[Path]:
    """Return the files that pages link to and that are no pages: pictures, programs."""
    texts = {page: _FENCED.split(page.read_text("utf-8"))[::2] for page in pages()}
    links = (
        _target(page, link[1]) for page in texts for link in _LINK.finditer("".join(texts[page]))
    )
    return {file for file in links if file.suffix != ".md"}


def copy_linked(folder: Path) -> None:
    """Copy the files that pages link to into a folder that has the pages."""
    for file in linked_files():
        copy = folder / place(file)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


def stage(folder: Path) -> None:
    """Write the site's source: the pages, and the files that they link to."""
    shutil.rmtree(folder, ignore_errors=True)
    for page in pages():
        _write(folder / place(page), described(page) + moved(page))
    # The navigation beside the first page has its lists.
    _write(folder / place(INDEX), described(INDEX) + moved(INDEX).partition("\n## ")[0] + "\n")
    names = {place(page).removesuffix(".md"): excerpts(page) for page in pages()}
    known = f"const WORDS = {json.dumps(words())};\nconst EXCERPTS = {json.dumps(names)};\n"
    _write(folder / "search.js", known + SEARCH.read_text("utf-8"))
    copy_linked(folder)
    with (folder / "index.md").open("a", encoding="utf-8") as index:
        index.writelines(_navigation())


def words() -> dict[str, list[str]]:
    """Return the words by which the search finds a heading: those of the table, of the glossary."""
    declared = tomllib.loads(WORDS.read_text("utf-8"))
    pairs = [(f"{kind}/{at}", text) for kind, its in declared.items() for at, text in its.items()]
    _, table = GLOSSARY.read_text("utf-8").split("\n## Words of other systems\n")
    for text, link, anchor in _MEANT.findall(table):
        page = place(_target(GLOSSARY, link)).removesuffix(".md")
        pairs.append((f"{page}#{anchor}", text))
    found: dict[str, list[str]] = {}
    for at, text in pairs:
        found.setdefault(at, []).extend(text.split(", "))
    return found


def excerpts(page: Path) -> dict[str, str]:
    """Return how the text under each heading of a page begins; the page's own has no anchor."""
    text = _COMMENT.sub("", "".join(_FENCED.split(page.read_text("utf-8"))[::2]))
    _, *parts = _ANY_HEADING.split(text)
    begin = {}
    for heading, under in zip(parts[::2], parts[1::2], strict=True):
        anchor = re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-") if begin else ""
        plain = re.sub(r"[`*|]|---", " ", _LINKED.sub(r"\1", under))
        begin[anchor] = shorten(plain, EXCERPT, placeholder=" …")
    return begin


def summary(page: Path) -> str:
    """Return the first sentence of a page."""
    text = next(filter(None, excerpts(page).values()))
    sentences = re.match(r".{40,}?[.:](?= |$)|.*", text)
    return sentences[0].rstrip(".:") + "." if sentences else ""


def described(page: Path) -> str:
    """Return the front matter of a page: its file, and its first sentence for search engines."""
    meta = json.dumps(summary(page))
    file = page.relative_to(ROOT).as_posix()
    return f"---\nfile: {file}\nmyst:\n  html_meta:\n    description: {meta}\n---\n\n"


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


def readable(page: Path, folder: str | None = None) -> str:
    """Return the text of a page without comments for the tests and elements for browsers."""
    return _NOT_READ.sub("", moved(page, folder)).rstrip() + "\n"


def write_texts(folder: Path) -> None:
    """Write the pages as Markdown, llms.txt that leads to them, and one text of them all.

    All links lead to files in the folder; those of the two texts begin there.
    """
    for page in pages():
        _write(folder / place(page), readable(page))
    copy_linked(folder)
    _write(folder / "llms.txt", f"# txqueue\n\n> {summary(INDEX)}\n" + "".join(_listed()))
    whole = (f"<!-- {place(page)} -->\n\n{readable(page, '.')}" for page in pages())
    _write(folder / "llms-full.txt", "\n".join(whole))


def _listed() -> Iterator[str]:
    """Yield the sections of llms.txt: each page by its title and its first sentence."""
    for title, files in sections():
        yield f"\n## {title}\n\n"
        for page in files:
            name = page.read_text("utf-8").partition("\n")[0].removeprefix("# ")
            yield f"- [{name}]({place(page)}): {summary(page)}\n"


def write_versions(site: Path) -> None:
    """Write the page that lists the versions in a folder, the newest first, and their pages."""
    found = [each.name for each in site.iterdir() if _VERSION_FOLDER.fullmatch(each.name)]
    found.sort(key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    have = {name: sorted(_pages_of(site / name)) for name in found}
    _write(site / "versions.js", f"window.VERSIONS = {json.dumps(have)};\n")
    items = "\n".join(f'<li><a href="{name}/index.html">{name}</a></li>' for name in found)
    _write(
        site / "index.html",
        f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>txqueue: documentation</title>
<body style="font: 1.1rem/1.6 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto">
<h1>txqueue</h1>
<p>Background jobs for Python, in the PostgreSQL database that you already have.</p>
{_lead(found)}<h2>All versions</h2>
<ul>
{items}
</ul>
""",
    )


def _pages_of(version: Path) -> Iterator[str]:
    for file in version.rglob("*.html"):
        yield file.relative_to(version).with_suffix("").as_posix()


def _lead(versions: list[str]) -> str:
    """Return the links to the newest version's first page and first tutorial; empty without one."""
    if not versions:
        return ""
    pages = f"{versions[0]}/index.html", f"{versions[0]}/tutorial/first-queue.html"
    return (
        f'<p><strong><a href="{pages[0]}">Documentation of {versions[0]}</a></strong>, the newest'
        f' version; begin with <a href="{pages[1]}">your first queue</a>.</p>\n'
    )


def run_sphinx(
    builder: str, source: Path, target: Path, *words: str, patience: float | None = None
) -> int:
    """Run one of Sphinx's builders, and return its exit status.

    What Sphinx keeps between two builds lies beside the source: it is no part of the site.
    """
    cache = source.with_name(f"{source.name}.{builder}")
    options = ("-b", builder, "-q", *words, "-d", str(cache), "-c", str(ROOT / "docs/site"))
    scorer = f"html_search_scorer={source / 'search.js'}"
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, "-D", scorer, source, target],
        env={**os.environ, "TXQUEUE_VERSION": version()},
        timeout=patience,
        check=False,
    )
    return done.returncode


class _Anchors(HTMLParser):
    """The links of an HTML page, and the places in it that links may lead to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes of an element that are links or names."""
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.append(value)
            elif name == "id" and value is not None:
                self.names.add(value)


def dead_links(folder: Path) -> Iterator[str]:
    """Find the links of a built site that lead to no file or place in it, web links aside."""
    read = {page: _Anchors(page) for page in sorted(folder.rglob("*.html"))}
    for page, its in read.items():
        for link in its.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = _target(page, unquote(parts.path)) if parts.path else page
            anchor = unquote(parts.fragment)
            is_dead = not target.exists() or (
                anchor and target in read and anchor not in read[target].names
            )
            if is_dead:
                yield f"{page.relative_to(folder)}: {link}"


def build(site: Path, source: Path = SOURCE) -> Path:
    """Build the site of this version into a folder, and return its place.

    Args:
        site: The folder of all versions.
        source: Where to put what Sphinx reads.

    Raises:
        SystemExit: When Sphinx warns, or a link is dead.
    """
    target = site / version()
    stage(source)
    shutil.rmtree(target, ignore_errors=True)
    if run_sphinx("html", source, target, "-W", "--keep-going"):
        raise SystemExit("error: Sphinx has found errors, see above")
    write_texts(target)
    write_versions(site)
    if dead := list(dead_links(site)):
        raise SystemExit("error: dead links:\n" + "\n".join(dead))
    return target


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else SITE) / "index.html")
