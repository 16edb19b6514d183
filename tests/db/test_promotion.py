"""A standby that has replayed the schema is promoted: all of it works."""

from collections.abc import Iterator

import pytest

from txqueue.store.inquiries.reader import Session
from txqueue.store.schema.migrations import migrate
from txqueue_torture.node import until
from txqueue_torture.server import Server, short_folder, standby_of

SEQUENCES = """select oid::regclass::text from pg_class
    where relkind = 'S' and relnamespace = 'txqueue'::regnamespace"""
REPLAYED = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"


@pytest.fixture(scope="module")
def promoted() -> Iterator[Session]:
    """A session at a former standby, which got the schema by replication."""
    with short_folder() as folder, Server(folder / "a") as primary:
        standby = standby_of(primary, folder / "b")
        with standby:
            migrate(primary.dsn)
            with primary.session() as session:
                written = session.value("select pg_current_wal_lsn()")
            with standby.session() as session:
                assert until(lambda: session.value(REPLAYED, (written,)), 30.0)
                session.rows("select pg_promote()")
                yield session


def test_every_sequence_can_be_read(promoted: Session) -> None:
    """PostgreSQL does not flush what it replays of a sequence without WAL."""
    names = [name for (name,) in promoted.rows(SEQUENCES)]
    assert names
    for name in names:
        promoted.value(f"select last_value from {name}")


def test_a_group_with_a_backlog_is_claimed(promoted: Session) -> None:
    """Its claim notes where the jobs of the group begin."""
    promoted.rows(
        'insert into txqueue.group_front ("group", rank, job_id, assignment, noted_at, looked_at)'
        " values ('g', now(), 1, 1, now(), now())"
    )
    assert promoted.value("select txqueue.advance_sequences()") == []
