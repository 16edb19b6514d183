"""The work of a shop: orders that a person approves, invoices, mail, a nightly report."""

from datetime import timedelta

from attrs import define

from txqueue import Cron, Key, Retry, RunningJob, WorkItem
from txqueue.errors import TimedOut

APPROVAL_FROM = 100


@define
class SendMail(WorkItem):
    """A mail, kept in a table; the mail server is busy at the first attempt."""

    recipient: str
    text: str

    work_type = "shop.mail"
    queue = "mail"
    group = Key("mail:{recipient}")
    retry = Retry(attempts=5, first=0.2)

    async def perform(self, job: RunningJob) -> None:
        if job.attempt == 1:
            raise ConnectionError("the mail server is busy")
        async with job.transaction() as txn:
            row = (self.recipient, self.text)
            await txn.execute("insert into mail (recipient, text) values (%s, %s)", row)


@define
class WriteInvoice(WorkItem):
    """The invoice of an order; returns its text."""

    order_id: int
    amount: int

    work_type = "shop.invoice"

    async def perform(self, job: RunningJob) -> str:
        return f"invoice {self.order_id}: {self.amount} EUR"


@define
class FulfilOrder(WorkItem):
    """An order, from its approval to its mail; while it waits it takes no worker."""

    order_id: int
    customer: str
    amount: int

    work_type = "shop.order"
    unique = Key("order {order_id}")

    async def perform(self, job: RunningJob) -> str:
        if self.amount >= APPROVAL_FROM and not await self.is_approved(job):
            return await self.close(job, "rejected", "we cannot deliver")
        invoice = await job.call("invoice", WriteInvoice(self.order_id, self.amount))
        return await self.close(job, "shipped", invoice)

    async def is_approved(self, job: RunningJob) -> bool:
        try:
            answer = await job.wait_for("approval", timeout=timedelta(days=3))
        except TimedOut:
            return False
        return bool(answer["approved"])

    async def close(self, job: RunningJob, state: str, text: str) -> str:
        """Set the order's state and enqueue its mail, in one transaction and once."""
        async with job.step_transaction("close") as step:
            if not step.is_done:
                row = (state, self.order_id)
                await step.txn.execute("update orders set state = %s where id = %s", row)
                await step.txn.enqueue(SendMail(self.customer, text))
        return state


@define
class NightlyReport(WorkItem):
    """How many orders there are, each night; a day is counted once."""

    work_type = "shop.report"
    schedule = Cron("0 3 * * *", tz="Europe/Berlin", catch_up="one")

    async def perform(self, job: RunningJob) -> None:
        async with job.transaction() as txn:
            await txn.execute(
                "insert into report select current_date, count(*) from orders"
                " on conflict (day) do update set orders = excluded.orders"
            )
