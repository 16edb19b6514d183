"""The blocking session of the command line."""

import pytest

from txqueue.errors import Refused
from txqueue.store.inquiries.reader import Session


def write_and(session: Session, key: str, sql: str) -> None:
    """Write a row and run a statement, in one transaction."""
    with session.transaction():
        session.rows("insert into txqueue.control (kind, key) values ('queue', %s)", (key,))
        session.rows(sql)


def test_a_transaction_that_fails_is_rolled_back_and_the_session_works_on(dsn: str) -> None:
    """Whatever the error is of."""
    with Session(dsn) as session:
        with pytest.raises(Refused, match="division by zero"):
            write_and(session, "a", "select 1 / 0")
        with pytest.raises(Refused, match="empty query"):
            # The driver refuses this one; the server's transaction is still open.
            write_and(session, "b", "")
        write_and(session, "c", "select 1")
        assert session.rows("select key from txqueue.control") == [("c",)]


def test_an_error_names_the_patience_of_its_session(dsn: str) -> None:
    """Not that of another command."""
    with Session(dsn, patience=0.1) as session:
        session.rows("set statement_timeout = 100")
        with pytest.raises(Refused, match=r"within 0\.1 s"):
            session.rows("select pg_sleep(1)")
