"""The blocking session of the command line."""

import os
import signal
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date
from typing import Any, Final

import psycopg2
import pytest
from psycopg2.extensions import make_dsn

from txqueue.errors import Refused, SchemaMismatch
from txqueue.store.driver.blocking_connection import connect
from txqueue.store.inquiries import reader
from txqueue.store.inquiries.inquiry import (
    Inquiry,
    Question,
    Rows,
    ask,
    together,
)
from txqueue.store.inquiries.reader import Session
from txqueue_torture.proxy import Address, Proxy
from txqueue_torture.sockets import socket_of


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


def test_an_interrupt_does_not_wait_for_the_end_of_a_query(dsn: str) -> None:
    """Nor does the server go on with it."""
    with Session(dsn) as session, closing(psycopg2.connect(dsn)) as other:
        pid = session.value("select pg_backend_pid()")
        asked = "select query from pg_stat_activity where pid = %s and state = 'active'"

        def interrupt() -> None:
            with other, other.cursor() as cursor:
                cursor.execute(asked, (pid,))
                while "pg_sleep" not in str(cursor.fetchall()):
                    other.rollback()
                    cursor.execute(asked, (pid,))
            os.kill(os.getpid(), signal.SIGINT)

        with ThreadPoolExecutor(1) as thread:
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                thread.submit(interrupt)
                with pytest.raises(KeyboardInterrupt):
                    session.rows("select pg_sleep(300)")
            finally:
                signal.signal(signal.SIGINT, before)
        # The connection is of use again, as the statement was cancelled.
        assert session.value("select 1") == 1


@pytest.mark.parametrize("table", ["job", "migration"])
def test_a_locked_table_is_told(dsn: str, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """Before the time of the query is over; also of the query with which a command begins."""
    monkeypatch.setattr(reader, "_TO_READ", "set local lock_timeout = 100; ")
    with closing(psycopg2.connect(dsn)) as other, Session(dsn) as one:
        other.cursor().execute(f"lock table txqueue.{table} in access exclusive mode")
        with pytest.raises(Refused, match="another session has locked what this needs"):
            one.find(ask("select job_id from txqueue.job"))
        other.rollback()
        assert one.find(ask("select job_id from txqueue.job")) == []


QUESTIONS: Final[Mapping[str, tuple[str, Rows | type[Exception]]]] = {
    "rows": ("select key from txqueue.control order by key", [{"key": "a"}, {"key": "b"}]),
    "settings": ("set local work_mem = '1MB'; select 1 as one", [{"one": 1}]),
    "none": ("select 1 where false", []),
    "table": ("select from txqueue.nothing", SchemaMismatch),
    "column": ("select nothing from txqueue.control", Refused),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_first_question_is_asked_with_the_version(migrated_database: str, name: str) -> None:
    """In a schema of another version, an error of the question becomes one of the version."""
    sql, expected = QUESTIONS[name]
    with Session(migrated_database) as session:
        session.rows(
            "insert into txqueue.control (kind, key) values ('queue', 'b'), ('queue', 'a')"
        )
        if isinstance(expected, list):
            assert session.find(ask(sql)) == expected
        else:
            with pytest.raises(expected, match="nothing"):
                session.find(ask(sql))
        session.rows("insert into txqueue.migration (number, name, serves) values (9999, '', 9999)")
    with (
        Session(migrated_database) as session,
        pytest.raises(SchemaMismatch, match="has version 9999, newer than"),
    ):
        session.find(ask(sql))


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


def test_inquiries_are_asked_together(dsn: str) -> None:
    """Each gets its own rows: their order, their types, and columns that others have, too."""

    def asks_twice() -> Inquiry[list[object]]:
        first = yield Question("select each as n from generate_series(1, %s) as each", (3,))
        second = yield Question("select n from unnest(%s) as n order by n desc", ([5, 7, 6],))
        return [row["n"] for row in (*first, *second)]

    def asks_nothing() -> Inquiry[str]:
        return "nothing"
        yield Question("select 1")

    empty = ask("select 1 as n where false")
    moment = ask("select 'b' as n, date '2026-01-02' as day")
    with Session(dsn) as session:
        found = session.find(together(asks_twice(), empty, asks_nothing(), moment))
    assert found == ([1, 2, 3, 7, 6, 5], [], "nothing", [{"n": "b", "day": date(2026, 1, 2)}])
