"""Sessions that a test leaves to the next show nothing of what was done in them."""

from collections.abc import Iterator

import pytest

from tests.db.kept_sessions import close_idle, leave_session, take_session
from tests.db.masters import Master

DONE = """
    set work_mem = '1MB';
    listen something;
    notify something;
    select pg_advisory_lock(7);
    create temp table noted (item text);
    prepare asked as select 1;
    set session authorization txqueue_read
"""
LEFT = """
    select current_setting('work_mem') = '1MB', current_user = 'txqueue_read',
        exists (select from pg_listening_channels()),
        exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
        to_regclass('noted') is not null, exists (select from pg_prepared_statements)
"""


@pytest.fixture
def idle(dsn: str, node: Master) -> Iterator[str]:
    """The DSN of a database whose sessions are kept, and none of which is idle."""
    if node.connection.server_version < 150_000:
        pytest.skip("sessions of this server are not kept")
    close_idle(dsn)
    yield dsn
    close_idle(dsn)


def test_the_next_test_has_the_session_as_if_it_were_new(idle: str) -> None:
    """Even if a transaction was left open."""
    session = take_session(idle)
    backend = session.get_backend_pid()
    with session.cursor() as cursor:
        cursor.execute(DONE)
        session.autocommit = False
        cursor.execute("set local work_mem = '2MB'")
    leave_session(session)
    again = take_session(idle)
    assert again.get_backend_pid() == backend
    assert again.autocommit
    assert again.notifies == []
    with again.cursor() as cursor:
        cursor.execute(LEFT)
        assert cursor.fetchall() == [(False,) * 6]
    leave_session(again)


def test_a_session_that_was_terminated_is_not_taken(idle: str, node: Master) -> None:
    """A new one is."""
    session = take_session(idle)
    backend = session.get_backend_pid()
    leave_session(session)
    node.value("select pg_terminate_backend(%s, 60000)", backend)
    other = take_session(idle)
    assert other.get_backend_pid() != backend
    leave_session(other)


def test_a_session_that_cannot_be_cleaned_is_closed(idle: str) -> None:
    """As one that its test has closed."""
    session = take_session(idle)
    backend = session.get_backend_pid()
    session.close()
    leave_session(session)
    other = take_session(idle)
    assert other.get_backend_pid() != backend
    leave_session(other)
