"""When a master counts as asleep, and which notification an enqueue sends then."""

from contextlib import closing
from typing import Any

import psycopg2
import pytest

from tests.db.masters import Master


def asleep(node: Master) -> bool:
    """Whether some master says that it sleeps."""
    return bool(node.value("select txqueue.has_sleeping_master()"))


def notifications(node: Master) -> int:
    """How many notifications arrived since the last call; they come with a statement's answer."""
    node.value("select 1")
    node.connection.poll()
    heard = len(node.connection.notifies)
    node.connection.notifies.clear()
    return heard


def test_a_master_sleeps_after_an_empty_claim(node: Master) -> None:
    """And is awake when it finds several jobs; a full one does not say that it sleeps."""
    node.enqueue({}, {}, {})
    node.take(1)
    node.take(0)
    assert not asleep(node)
    node.take()
    assert not asleep(node)
    node.take()
    assert asleep(node)
    node.enqueue({}, {})
    node.take()
    assert not asleep(node)


@pytest.mark.parametrize("job", [{}, {"group": "one"}, {"tenant": "one"}])
def test_a_single_job_lets_a_master_sleep(node: Master, job: dict[str, Any]) -> None:
    """It was all there was, so no claim need follow; the next enqueue wakes the master."""
    node.take()
    node.enqueue(job)
    assert len(node.take().ids) == 1
    assert asleep(node)


@pytest.mark.parametrize(
    ("due_in", "heard"), [("0 s", 1), ("-1 hour", 1), ("2 s", 1), ("1 minute", 0)]
)
def test_an_enqueue_of_a_job_due_soon_wakes_a_sleeping_master(
    node: Master, due_in: str, heard: int
) -> None:
    """Once a transaction, however many jobs it enqueues; a later one it finds by itself."""
    node.cursor.execute("listen txqueue")
    node.take()
    node.connection.autocommit = False
    for _ in range(3):
        node.value(
            "select txqueue.enqueue('test.kind', '{}', not_before => now() + %s::interval)", due_in
        )
    assert notifications(node) == 0
    node.connection.commit()
    assert notifications(node) == heard


def test_a_full_queue_of_notifications_is_emptied(node: Master, dsn: str) -> None:
    """Once no session holds it up; the server does not look again before the next one fits in."""
    segments = "select count(*) from pg_ls_dir('pg_notify')"
    with closing(psycopg2.connect(dsn)) as stuck, stuck.cursor() as cursor:
        cursor.execute("listen txqueue_test")
        stuck.commit()
        cursor.execute("select 1")
        node.value(
            "select count(pg_notify('txqueue_test', number || repeat('x', 7900)))"
            " from generate_series(1, 200) as number"
        )
        cursor.execute("unlisten *")
        stuck.commit()
    assert node.value(segments) > 2
    node.column("select queue from txqueue.measure_minute('{1}')")
    assert node.value(segments) <= 2


def test_a_notification_tells_how_many_jobs_there_are(node: Master) -> None:
    """And the transaction, so that other nodes wake for the next one."""
    node.cursor.execute("listen txqueue")
    node.take()
    node.enqueue({}, {}, {})
    node.take()
    node.take()
    node.value("select txqueue.enqueue('test.kind', '{}')")
    node.connection.poll()
    texts = [told.payload.split() for told in node.connection.notifies]
    node.connection.notifies.clear()
    assert [(text[0], text[1]) for text in texts] == [("jobs", "3"), ("jobs", "1")]
    assert int(texts[0][2]) < int(texts[1][2])


@pytest.mark.parametrize(
    ("setting", "heard"), [("0", 1), ("1s", 1), ("1min", 1), ("999ms", 0), ("1us", 1), ("20ms", 0)]
)
def test_a_short_lock_timeout_sends_no_notification(node: Master, setting: str, heard: int) -> None:
    """It would refuse the commit while other transactions commit with theirs; the poll finds it."""
    node.cursor.execute("listen txqueue; listen txqueue_ended")
    node.take()
    node.value("select txqueue.request_end_notices(60)")
    node.value("select set_config('lock_timeout', %s, false)", setting)
    (job_id,) = node.enqueue({})
    assert notifications(node) == heard
    [chunk] = node.claim()
    assert chunk.ids == [job_id]
    node.complete(chunk)
    assert notifications(node) == heard


COMPLETE = "select total from txqueue.complete(%s, %s::smallint[], %s::bigint[], %s::text[])"
COMPLETE_ONE = "select txqueue.complete_one(%s, %s, %s, null)"


def test_ends_are_notified_by_a_transaction_of_their_own(node: Master) -> None:
    """One that completes jobs sends no notification: it would commit alone, as others that do."""
    node.cursor.execute("listen txqueue_ended")
    node.value("select txqueue.request_end_notices(60)")
    first, second = node.enqueue({}, {})
    own, other = node.claim(1)[0], node.claim(1)[0]
    node.value(COMPLETE_ONE, node.incarnation, own.assignment, first)
    node.value(COMPLETE, node.incarnation, [other.lane], [other.assignment], [f"{{{second}}}"])
    assert node.states() == {"done": 2}
    assert notifications(node) == 0
    assert 0 < node.notify_ends([first, second]) <= 61
    assert notifications(node) == 1


def test_a_node_learns_that_no_client_waits(node: Master) -> None:
    """And notifies none."""
    node.cursor.execute("listen txqueue_ended")
    node.value("select setval('txqueue.awaited', 0)")
    assert node.notify_ends([1]) == 0
    assert notifications(node) == 0
