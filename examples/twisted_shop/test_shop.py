"""The shop's work, in the transaction of each test."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta

import psycopg2
import pytest
from psycopg2.extensions import connection as Connection

from examples.tables import TABLES
from examples.twisted_shop.work import FulfilOrder, NightlyReport, SendMail, WriteInvoice
from txqueue.adapters.psycopg2 import enqueue
from txqueue.testing import assert_enqueued, connected, drain, perform


@pytest.fixture
def db(txqueue_dsn: str) -> Iterator[Connection]:
    """A connection with the shop's tables and an order; rolled back at the end."""
    with closing(psycopg2.connect(txqueue_dsn)) as connection, connected(connection):
        with connection.cursor() as cursor:
            cursor.execute(TABLES)
            cursor.execute("insert into orders (customer, amount) values ('Ada', 20)")
        yield connection


def rows(db: Connection, sql: str) -> list[tuple[object, ...]]:
    """Run a query in the test's transaction."""
    with db.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def test_an_invoice_has_its_amount() -> None:
    """No database is needed."""
    assert perform(WriteInvoice(7, 20)).get() == "invoice 7: 20 EUR"


def test_a_busy_mail_server_is_tried_again(db: Connection) -> None:
    """And the mail is kept once."""
    enqueue(db, SendMail("Ada", "hello"))
    assert [run.kind for run in drain(until=timedelta(minutes=1), raise_errors=False)] == [
        "retry",
        "done",
    ]
    assert rows(db, "select * from mail") == [("Ada", "hello")]


def test_an_order_waits_for_its_approval(
    txqueue_dsn: str, txqueue_node: Callable[..., object]
) -> None:
    """Steps need a node."""
    with closing(psycopg2.connect(txqueue_dsn)) as db, db.cursor() as cursor:
        db.autocommit = True
        cursor.execute(TABLES)
        txqueue_node("examples.twisted_shop.work", settings={"TXQUEUE_QUEUES": "default,mail"})
        order = enqueue(db, FulfilOrder(1, "Ada", 2000))
        assert_enqueued(FulfilOrder, state="waiting", within=30, connection=db)
        cursor.execute("select txqueue.signal(%s, 'approval', '{\"approved\": true}')", [order])
        assert_enqueued(SendMail, state="done", within=30, connection=db)
        assert rows(db, "select * from mail") == [("Ada", "invoice 1: 2000 EUR")]


def test_a_report_counts_the_orders(db: Connection) -> None:
    """Of all days."""
    enqueue(db, NightlyReport())
    drain()
    assert rows(db, "select orders from report") == [(1,)]
