"""Places two orders, of which a person approves one, and asks for the report."""

from twisted.internet.task import react

from examples.tables import TABLES
from examples.twisted_shop.work import FulfilOrder, NightlyReport
from txqueue import WorkQueue


async def place(queue: WorkQueue, customer: str, amount: int) -> int:
    """Store an order and enqueue its work, in one transaction."""
    async with queue.transaction() as txn:
        row = (customer, amount)
        [[order_id]] = await txn.execute(
            "insert into orders (customer, amount) values (%s, %s) returning id", row
        )
        return await txn.enqueue(FulfilOrder(order_id, customer, amount))


async def tour(reactor: object) -> None:
    """Use the shop."""
    queue = await WorkQueue.connect()
    async with queue.transaction() as txn:
        await txn.execute(TABLES)
    print("a small order is", await queue.wait(await place(queue, "Ada", 20), timeout=60))
    large = await place(queue, "Bob", 2000)
    await queue.signal(large, "approval", {"approved": True}, key="by Eve")
    print("a large one, approved, is", await queue.wait(large, timeout=60))
    await queue.wait(await queue.enqueue(NightlyReport()), timeout=60)
    async with queue.transaction() as txn:
        [[orders]] = await txn.execute("select orders from report")
    print("the report counts", orders, "orders")
    await queue.close()


if __name__ == "__main__":
    react(tour)
