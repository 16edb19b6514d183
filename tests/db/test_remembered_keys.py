"""Unique keys that are remembered after their jobs have ended: once, and only what is newer."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import pytest

from tests.db.masters import Master, master

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def put(node: Master, number: int, mode: str = "once", **options: Any) -> int:
    """Enqueue with a key; returns the number of the job that there is then."""
    job_id: int = node.value(
        "select txqueue.enqueue('test.kind', jsonb_build_object('number', %s::int),"
        " \"unique\" => 'k', unique_mode => %s, options => %s)",
        number,
        mode,
        json.dumps(options) if options else None,
    )
    return job_id


def version(node: Master, minutes: int, mode: str = "replace") -> int:
    """Enqueue what was true so many minutes after noon."""
    as_of = NOON + timedelta(minutes=minutes)
    return put(node, minutes, mode, as_of=as_of.isoformat())


def run(node: Master) -> list[int]:
    """Run all there is; returns the numbers in the payloads."""
    ran: list[int] = []
    while chunks := node.claim():
        for chunk in chunks:
            ran += [node.job(job_id)["payload"]["number"] for job_id in chunk.ids]
            node.complete(chunk)
    return ran


@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
def test_once_is_once_whatever_became_of_it(node: Master, end: str) -> None:
    """While it is pending, while it runs, and when it has ended; another key is another."""
    first = put(node, 1)
    assert put(node, 2) == first
    (chunk,) = node.claim()
    assert put(node, 3) == first
    node.settle(chunk, end)
    assert put(node, 4) == first
    assert node.claim() == []
    other = "select txqueue.enqueue('test.kind', '{}', \"unique\" => 'l', unique_mode => 'once')"
    assert node.value(other) != first


def test_of_many_at_once_one_is_enqueued(node: Master, dsn: str) -> None:
    """The others wait for an open transaction; if that is undone, one of them goes."""
    node.connection.autocommit = False
    put(node, 0)

    def enqueue(number: int) -> int:
        with master(dsn, f"client {number}") as session:
            return put(session, number)

    with ThreadPoolExecutor(5) as threads:
        others = [threads.submit(enqueue, number) for number in range(1, 6)]
        while not node.value("select count(*) from pg_locks where not granted"):
            assert not any(each.done() for each in others)
        node.connection.rollback()
        found = {each.result(30) for each in others}
    node.connection.autocommit = True
    assert len(found) == 1
    assert node.value("select count(*) from txqueue.job") == 1


def test_once_for_a_time_comes_again_after_it(node: Master) -> None:
    """Not before; and what still holds the key does for both."""
    first = put(node, 1, once_for=3600)
    run(node)
    assert put(node, 2, once_for=3600) == first
    node.cursor.execute("update txqueue.seen_key set at = at - interval '2 h'")
    assert put(node, 3) == first
    second = put(node, 4, once_for=3600)
    assert second != first
    assert run(node) == [4]
    put(node, 5, "keep")
    node.cursor.execute("update txqueue.seen_key set at = at - interval '2 h'")
    third = put(node, 6, once_for=3600)
    assert run(node) == [5]
    assert put(node, 7) == third


@pytest.mark.parametrize("mode", ["replace", "again"])
def test_an_older_version_never_takes_the_place_of_a_newer(node: Master, mode: str) -> None:
    """Neither while that is pending, nor while it runs, nor after it has run."""
    first = version(node, 5, mode)
    assert version(node, 3, mode) == first
    assert version(node, 7, mode) == first
    assert version(node, 6, mode) == first
    (chunk,) = node.claim()
    assert version(node, 7, mode) == first
    following = version(node, 8, mode)
    assert following != first
    assert version(node, 4, mode) == following
    node.complete(chunk)
    assert run(node) == [8]
    assert version(node, 8, mode) == following
    assert run(node) == []
    assert version(node, 9, mode) != following
    assert run(node) == [9]


def test_a_version_that_was_rolled_back_was_never_seen(node: Master) -> None:
    """What comes later in its place is not older than it."""
    node.connection.autocommit = False
    version(node, 9)
    node.connection.rollback()
    node.connection.autocommit = True
    version(node, 3)
    assert run(node) == [3]


def test_a_remembered_job_is_repeated_and_retried(node: Master) -> None:
    """By hand it runs as often as one likes."""
    once = put(node, 1)
    node.settle(node.claim()[0], "failed")
    assert node.value("select retried from txqueue.retry(%s, 'ann')", [once]) == [once]
    assert run(node) == [1]
    again = node.value("select txqueue.repeat(%s, 'ann')", once)
    assert again != once
    assert run(node) == [1]


def test_a_repeated_version_runs(node: Master) -> None:
    """It is not held for one that is too old."""
    first = version(node, 5)
    run(node)
    assert node.value("select txqueue.repeat(%s, 'ann')", first) != first
    assert run(node) == [5]


@pytest.mark.parametrize(
    ("mode", "options", "said"),
    [
        ("once", {"as_of": NOON.isoformat()}, "as_of says which"),
        ("keep", {"as_of": NOON.isoformat()}, "as_of says which"),
        ("replace", {"as_of": "soon"}, "no moment"),
        ("replace", {"as_of": "infinity"}, "no moment"),
        ("replace", {"as_of": None}, "no moment"),
        ("replace", {"once_for": 3}, "unique_mode once"),
        ("once", {"once_for": "3"}, "once_for is not within"),
        ("once", {"once_for": -3}, "once_for is not within"),
        ("once", {"once_for": 1e300}, "once_for is not within"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    node: Master, mode: str, options: dict[str, Any], said: str
) -> None:
    """With what to pass instead, and nothing is remembered."""
    with pytest.raises(psycopg2.Error, match=said):
        put(node, 1, mode, **options)
    assert node.value("select count(*) from txqueue.seen_key") == 0
