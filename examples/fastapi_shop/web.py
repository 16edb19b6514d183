"""The shop's requests: each is one transaction."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Request

from examples.fastapi_shop.work import FulfilOrder
from examples.tables import TABLES
from txqueue.aio import AsyncTransaction, Queue

PLACE = "insert into orders (customer, amount) values (%s, %s) returning id"
APPROVE = (
    """select txqueue.signal(job_id, 'approval', '{"approved": true}') from orders where id = %s"""
)
READ = """select amount, state, (select text from mail where recipient = customer limit 1)
          from orders where id = %s"""


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Hold a queue while the application runs."""
    async with await Queue.connect() as queue:
        async with queue.transaction() as txn:
            await txn.execute(TABLES)
        app.state.queue = queue
        yield


app = FastAPI(lifespan=lifespan)


async def transaction(request: Request) -> AsyncGenerator[AsyncTransaction]:
    """The transaction of a request, committed before its response is sent."""
    async with request.app.state.queue.transaction() as txn:
        yield txn


Transaction = Annotated[AsyncTransaction, Depends(transaction, scope="function")]


@app.post("/orders", status_code=201)
async def place(customer: str, amount: int, txn: Transaction) -> dict[str, int]:
    """Store an order and enqueue its work."""
    [(order_id,)] = await (await txn.execute(PLACE, [customer, amount])).fetchall()
    job_id = await txn.enqueue(FulfilOrder(order_id, customer, amount))
    await txn.execute("update orders set job_id = %s where id = %s", [job_id, order_id])
    return {"order": order_id}


@app.post("/orders/{order_id}/approval", status_code=202)
async def approve(order_id: int, txn: Transaction) -> None:
    """Let an order go on that waits for it."""
    await txn.execute(APPROVE, [order_id])


@app.get("/orders/{order_id}")
async def read(order_id: int, txn: Transaction) -> dict[str, str | int | None]:
    """An order, and the mail about it."""
    [(amount, state, mail)] = await (await txn.execute(READ, [order_id])).fetchall()
    return {"amount": amount, "state": state, "mail": mail}
