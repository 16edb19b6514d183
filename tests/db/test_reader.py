"""The blocking session of the command line."""

import socket
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from psycopg2.extensions import make_dsn

from txqueue.errors import Refused
from txqueue.store.driver.blocking_connection import connect
from txqueue.store.driver.conninfo import socket_of
from txqueue.store.inquiries.reader import Session
from txqueue_torture.proxy import Address, Proxy


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


@pytest.mark.parametrize(
    ("told", "limits"), [("", ["3", "10"]), ("connect_timeout=7", ["7", "7"])], ids=["", "told"]
)
def test_a_command_gives_each_address_the_time_that_a_client_gives_it(
    database18: str, monkeypatch: pytest.MonkeyPatch, told: str, limits: list[str]
) -> None:
    """The first address of a name leaves time for the next."""
    real = socket_of(database18)
    assert real is not None
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *_, **__: [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.2", "127.0.0.1")],
    )
    seen: list[str] = []

    def noted(**given: Any) -> Any:
        seen.append(str(given["connect_timeout"]))
        return opened(**given)

    opened = psycopg2.connect
    monkeypatch.setattr(psycopg2, "connect", noted)
    with Proxy(Address(real)) as proxy:
        dsn = make_dsn(database18, host="db.example", port=proxy.port, sslmode="disable")
        with closing(connect(f"{dsn} {told}", "test")) as connection:
            assert connection.info.host == "db.example"
    assert seen == limits
