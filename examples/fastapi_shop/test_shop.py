"""The shop's requests and work, in the transaction of each test."""

import asyncio
from datetime import timedelta

from examples.fastapi_shop.web import place
from examples.fastapi_shop.work import FulfilOrder, SendMail, invoice
from examples.tables import TABLES
from txqueue.aio import Queue
from txqueue.testing import aassert_enqueued, adrain, perform


def test_an_invoice_has_its_amount() -> None:
    """No database is needed."""
    assert perform(invoice.work(7, 20)).get() == "invoice 7: 20 EUR"


def test_a_request_enqueues_its_order(txqueue_dsn: str) -> None:
    """With the row, in one transaction."""

    async def order() -> None:
        async with await Queue.connect(txqueue_dsn) as queue, queue.transaction() as txn:
            await txn.execute(TABLES)
            placed = await place("Ada", 20, txn)
            await aassert_enqueued(FulfilOrder, order_id=placed["order"], connection=txn)

    asyncio.run(order())


def test_a_busy_mail_server_is_tried_again(txqueue_dsn: str) -> None:
    """By the policy of the class; then the mail is stored as the job ends."""

    async def send() -> None:
        async with await Queue.connect(txqueue_dsn) as queue, queue.transaction() as txn:
            await txn.execute(TABLES)
            await txn.enqueue(SendMail("Ada", "hello"))
            until = timedelta(minutes=1)
            outcomes = await adrain(until=until, connection=txn, raise_errors=False)
            assert [each.kind for each in outcomes] == ["retry", "done"]

    asyncio.run(send())
