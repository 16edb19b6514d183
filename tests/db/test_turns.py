"""Of many transactions at a time one notifies masters; they look for the jobs of the others."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg2
import pytest

from tests.db.masters import Master
from tests.db.test_waking import notifications
from txqueue.policy.placement.credit import Stragglers
from txqueue.store.node.run_functions import OPEN_TRANSACTIONS, open_transactions

ENQUEUE = "select txqueue.enqueue('test.kind', '{}')"
# One function enqueues jobs with nothing but a payload, another all others.
ANY = "select txqueue.enqueue('test.kind', '{}', priority => 4)"
BOTH = pytest.mark.parametrize("sql", [ENQUEUE, ANY], ids=["plain", "any"])
# The sequence as a master leaves it that sleeps, with turns of a day, and of the least.
LONG_TURNS, SHORT_TURNS = 2 * 86_400_000 + 1, 1
OPEN_SESSION = "select exists (select from pg_stat_activity where pid = %s)"


@pytest.fixture
def sessions(dsn: str) -> Iterator[list[Any]]:
    """Sixteen sessions, each in a transaction."""
    with ExitStack() as opened:
        yield [opened.enter_context(closing(psycopg2.connect(dsn))) for _ in range(16)]


@pytest.fixture
def listening(node: Master) -> Master:
    """A master that sleeps, and listens."""
    node.cursor.execute("listen txqueue")
    node.take()
    node.value("select setval('txqueue.asleep', %s)", LONG_TURNS)
    return node


def run(session: Any, sql: str = ENQUEUE) -> Any:
    """Run a statement in a session's transaction; returns its value."""
    with session.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def test_sixteen_transactions_at_a_time_notify_once(listening: Master, sessions: list[Any]) -> None:
    """The master that this wakes takes all of their jobs, as it looks for open transactions."""
    stragglers = Stragglers()
    stragglers.arm()
    waiting = {run(session): session for session in sessions}
    first, *others = waiting.values()
    first.commit()
    assert notifications(listening) == 1
    found: list[int] = []
    for now, session in enumerate([*others, None]):
        begun = listening.value(f"select {OPEN_TRANSACTIONS}")
        taken = [job for chunk in listening.claim(2) for job in chunk.ids]
        found += taken
        stragglers.note_claim(open_transactions(begun), float(now), found=bool(taken))
        if session is not None:
            assert stragglers.pause(float(now), 0.002) is not None
            session.commit()
    assert stragglers.pause(20.0, 0.002) is None
    assert sorted(found) == sorted(waiting)
    assert notifications(listening) == 0


@pytest.mark.parametrize("end", ["commit", "rollback", "close"])
def test_the_end_of_a_transaction_gives_the_turn_back(
    listening: Master, sessions: list[Any], end: str
) -> None:
    """However it ends; and the transaction that has the turn may go on with it."""
    first, second, third = sessions[:3]
    run(first)
    run(first)
    run(second)
    backend = first.get_backend_pid()
    getattr(first, end)()
    while end == "close" and listening.value(OPEN_SESSION, backend):
        pass
    run(third)
    for session in (second, third):
        session.commit()
    assert notifications(listening) == (2 if end == "commit" else 1)


def test_a_transaction_that_stays_open_has_the_turn_for_a_while(
    listening: Master, sessions: list[Any]
) -> None:
    """Then others notify, though it is still open."""
    listening.value("select setval('txqueue.asleep', %s)", SHORT_TURNS)
    run(sessions[0])
    for _ in range(10_000):
        run(sessions[1])
        sessions[1].commit()
        if notifications(listening):
            return
    pytest.fail("no notification while one transaction stays open")


def test_a_batch_does_not_wait_for_the_turn_of_a_job(
    listening: Master, sessions: list[Any]
) -> None:
    """It wakes more nodes; but of several batches of about the same size one does."""
    run(sessions[0])
    for session in sessions[1:3]:
        run(
            session,
            "select txqueue.enqueue_many((select jsonb_agg(jsonb_build_object("
            "'work_type', 'test.kind', 'payload', '{}'::jsonb)) from generate_series(1, 20)))",
        )
    for session in sessions[:3]:
        session.commit()
    assert notifications(listening) == 2


@BOTH
def test_one_open_transaction_takes_of_credit(
    listening: Master, sessions: list[Any], sql: str
) -> None:
    """The second one's job wakes a master; the third one's does neither."""
    listening.value("select txqueue.grant_credit(%s, 32)", listening.incarnation)
    listening.value("select txqueue.listen_to_run(%s)", listening.incarnation)
    ids = [run(session, sql) for session in sessions[:3]]
    for session in sessions[:3]:
        session.commit()
    states = [listening.job(job_id)["state"] for job_id in ids]
    assert states == ["assigned", "ready", "ready"]
    assert notifications(listening) == 2


@BOTH
def test_a_session_that_may_not_notify_takes_no_turn(
    listening: Master, sessions: list[Any], sql: str
) -> None:
    """With a short lock_timeout its job is found by the poll, and others notify."""
    run(sessions[0], "select set_config('lock_timeout', '20ms', true)")
    run(sessions[0], sql)
    run(sessions[1], sql)
    for session in sessions[:2]:
        session.commit()
    assert notifications(listening) == 1


def test_an_idle_master_corrects_the_length_of_turns(node: Master) -> None:
    """If its commits take less than half of what is known, or more than twice as long."""
    node.take()
    node.value("select setval('txqueue.asleep', %s)", 2 * 201 + 1)
    node.take()
    assert node.value("select last_value from txqueue.asleep") == 2 * 100 + 1
    node.value("select setval('txqueue.asleep', %s)", 2 * 199 + 1)
    node.take()
    assert node.value("select last_value from txqueue.asleep") == 2 * 199 + 1


def test_a_claim_that_finds_nothing_does_not_wait_for_the_disk(node: Master) -> None:
    """Neither the one that says that the master sleeps, nor those that follow."""
    node.enqueue({}, {})
    node.take()
    node.connection.autocommit = False
    node.take()
    assert node.value("show synchronous_commit") == "off"
    node.connection.commit()
    assert node.value("show synchronous_commit") == "on"
    node.take()
    assert node.value("select pg_current_xact_id_if_assigned()") is None
    node.connection.rollback()


def test_a_claim_that_takes_jobs_is_on_disk(node: Master) -> None:
    """Also if it says that the master sleeps."""
    node.enqueue({})
    node.connection.autocommit = False
    assert len(node.take().ids) == 1
    assert node.value("select txqueue.has_sleeping_master()")
    assert node.value("show synchronous_commit") == "on"
    node.connection.rollback()


def test_open_transactions_are_those_that_have_written(node: Master, sessions: list[Any]) -> None:
    """Whether or not a later one has ended since; asking takes no number itself."""

    def begun() -> frozenset[int]:
        return open_transactions(node.value(f"select {OPEN_TRANSACTIONS}"))

    run(sessions[0], "select 1")
    assert begun() == frozenset()
    numbers = [int(run(each, "select pg_current_xact_id()::text")) for each in sessions]
    assert begun() == set(numbers)
    sessions[7].rollback()
    assert begun() == {*numbers} - {numbers[7]}
    for session in sessions:
        session.rollback()
    assert begun() == frozenset()
