"""What is refused in transactions that see only what was committed when they began."""

from contextlib import closing

import psycopg2
import pytest
from psycopg2.extensions import make_dsn

from tests.db.masters import Master
from tests.db.stored import Stored
from txqueue.errors import ConfigurationError
from txqueue.store.schema.migrations import check_database

OLD = "begin isolation level repeatable read"


def test_a_node_does_not_work_in_them(dsn: str) -> None:
    """It would miss what others park, and truncate what others fill; the error says what to set."""
    with closing(
        psycopg2.connect(dsn, options=r"-c default_transaction_isolation=repeatable\ read")
    ) as connection:
        session = Stored.__new__(Stored)
        session.cursor = connection.cursor()
        with pytest.raises(psycopg2.Error, match="repeatable read") as caught:
            session.register("old")
    assert "default_transaction_isolation" in str(caught.value.diag.message_hint)


def test_a_node_does_not_start_where_they_are_the_rule(dsn: str) -> None:
    """One line says what to set."""
    old = make_dsn(dsn, options=r"-c default_transaction_isolation=repeatable\ read")
    with pytest.raises(ConfigurationError, match="are repeatable read by default"):
        check_database(old)
    check_database(dsn)


def test_a_job_does_not_end_in_one(node: Master) -> None:
    """Its handler has chosen that level for its own transaction, which is rolled back with an
    error.
    """
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    node.cursor.execute(OLD)
    with pytest.raises(psycopg2.Error, match="a job does not end in a transaction that is repeat"):
        node.value(
            "select txqueue.complete_one(%s, %s, %s, null)",
            *(node.incarnation, chunk.assignment, job_id),
        )
    node.cursor.execute("rollback")
    assert node.job(job_id)["state"] == "assigned"


def test_no_lane_is_truncated_in_one(node: Master, other: Master) -> None:
    """It looks empty there, whatever was committed since."""
    node.cursor.execute(OLD)
    node.value("select 1")
    (job_id,) = other.enqueue({})
    assert not node.value("select txqueue.truncate_if_empty('job_ready_0')")
    node.cursor.execute("rollback")
    assert node.claimed_ids() == [job_id]


def test_a_unique_key_is_not_taken_over_in_one(node: Master, other: Master) -> None:
    """The job that holds it may have moved to where it is not seen."""
    put = "select txqueue.enqueue('test.kind', '{}', \"unique\" => 'k')"
    node.value(put)
    other.cursor.execute(OLD)
    other.value("select 1")
    (chunk,) = node.claim()
    node.value("select did from txqueue.rotate(least_bytes => 1, at_most => 16)")
    assert node.value("select pg_relation_size('txqueue.job_ready_0')") == 0
    with pytest.raises(psycopg2.errors.SerializationFailure, match="too old to see"):
        other.value(put)
    other.cursor.execute("rollback")
    assert other.value(put) == chunk.ids[0]
