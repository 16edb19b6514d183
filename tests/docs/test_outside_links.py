"""Links into the web are reported; asking for them needs the network and is `make links`."""

import json

from docs.check_links import Link, is_bad, is_outside, read, report

FOUND = [
    {"filename": "a.md", "lineno": 3, "uri": "https://example.com/", "status": "working"},
    {"filename": "a.md", "lineno": 4, "uri": "https://example.com/x", "status": "broken"},
    {"filename": "b.md", "lineno": 1, "uri": "https://example.com/y", "status": "redirected"},
    {"filename": "b.md", "lineno": 2, "uri": "http://localhost:8482/", "status": "ignored"},
    {"filename": "b.md", "lineno": 5, "uri": "a.html", "status": "working"},
    {"filename": "b.md", "lineno": 6, "uri": "https://example.com/z", "status": "timeout"},
]


def test_links_that_lead_nowhere_are_named() -> None:
    """With page, line and reason; those that have moved are named, but are not bad."""
    links = list(read(json.dumps({**each, "info": "why"}) for each in FOUND))
    assert [link.address[-1] for link in links if is_outside(link) and is_bad(link)] == ["x", "z"]
    assert list(report(links)) == [
        "a.md:4: broken: https://example.com/x: why",
        "b.md:1: redirected: https://example.com/y: why",
        "b.md:6: timeout: https://example.com/z: why",
        "4 links lead outside, 2 of them nowhere",
    ]


def test_no_links_are_no_error() -> None:
    """The report says how many were found, so that none at all is seen."""
    assert list(report([Link("a.md:1", "b.html", "working", "")])) == [
        "0 links lead outside, 0 of them nowhere"
    ]
