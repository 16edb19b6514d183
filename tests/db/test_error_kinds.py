"""The fingerprint that a worker computes for Sentry is the one that the database computes."""

from typing import Any

from tests.db import test_failures
from tests.db.masters import Master
from txqueue.sentry.error_kinds import fingerprint


def texts() -> list[str]:
    """The errors that the tests of the database's function name, without and with a traceback."""
    marks: list[Any] = [
        mark
        for test in vars(test_failures).values()
        for mark in getattr(test, "pytestmark", [])
        if mark.args and mark.args[0] == ("one", "other")
    ]
    said = [text for mark in marks for pair in mark.args[1] for text in pair]
    assert len(said) > 100
    return ["", "\n", *said, *map(test_failures.error, said)]


def test_it_is_that_of_the_database(node: Master) -> None:
    """For each kind of text that it knows."""
    errors = texts()
    sql = (
        "select array(select txqueue.fingerprint(text)"
        " from unnest(%s) with ordinality as its (text, place) order by place)"
    )
    expected = dict(zip(errors, node.value(sql, errors), strict=True))
    assert {error: fingerprint(error) for error in errors} == expected
