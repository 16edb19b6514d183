"""Asks the web about the links of the documentation that lead outside; `make links`.

    python -m docs.check_links

It needs the network, so it is no part of `make docs`, which checks all other links. Each address is
asked at most three times, for at most 15 s; the whole ends after ten minutes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from docs.build_site import ROOT, SOURCE, run_sphinx, stage

FOLDER: Final = ROOT / "build" / "links"
PATIENCE: Final = 600.0


class Link(NamedTuple):
    """A link of a page that was looked at.

    Attributes:
        page: The page and the line.
        address: Where it leads.
        state: What Sphinx says: working, redirected, broken, timeout, unchecked, ignored.
        why: The reason, or where it is redirected to.
    """

    page: str
    address: str
    state: str
    why: str


def read(lines: Iterable[str]) -> Iterator[Link]:
    """Read what the builder has written: a JSON object in each line."""
    for each in map(json.loads, lines):
        yield Link(
            f"{each['filename']}:{each['lineno']}", each["uri"], each["status"], each["info"]
        )


def is_outside(link: Link) -> bool:
    """Return whether a link leads into the web."""
    return link.address.startswith(("http://", "https://")) and link.state != "ignored"


def is_bad(link: Link) -> bool:
    """Return whether a link must be fixed: there is no answer, or one that it is not there."""
    return link.state not in ("working", "redirected")


def report(links: Iterable[Link]) -> Iterator[str]:
    """Say what was found: each link that is bad or has moved, and how many there are."""
    outside = [link for link in links if is_outside(link)]
    for link in outside:
        if link.state != "working":
            yield f"{link.page}: {link.state}: {link.address}: {link.why}"
    bad = sum(map(is_bad, outside))
    yield f"{len(outside)} links lead outside, {bad} of them nowhere"


def check(folder: Path = FOLDER) -> list[Link]:
    """Ask for all links of the pages."""
    stage(SOURCE)
    # It fails if a link is dead; the report says which.
    run_sphinx("linkcheck", SOURCE, folder, patience=PATIENCE)
    with (folder / "output.json").open(encoding="utf-8") as lines:
        return list(read(lines))


if __name__ == "__main__":
    found = check()
    print(*report(found), sep="\n")
    sys.exit(any(is_bad(link) for link in found if is_outside(link)))
