"""The back office of the shop, on txqueue; before/shop.py is the same for Celery."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection
from twisted.internet.threads import deferToThread

from txqueue import (
    Cron,
    Discard,
    Every,
    FailedAttempt,
    Next,
    Retry,
    RunningJob,
    Runtime,
    middleware,
    on_failure,
    task,
)

ONCE = Retry(attempts=1)
slow_task = task(retry=ONCE, queue="slow")


def connect() -> Connection:
    """Connect to the database of the shop, which is that of the queue."""
    return psycopg2.connect(os.environ["TXQUEUE_DSN"])


def query(sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Run one statement in a transaction of its own."""
    connection = connect()
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


def note(line: str) -> None:
    """Write a line into the ledger."""
    query("insert into ledger (line) values (%s)", line)


def results_of(job_ids: list[int]) -> list[Any]:
    """Return the results of jobs, in the order of the numbers."""
    rows = query("select job_id, result from txqueue.job where job_id = any(%s)", job_ids)
    found = dict(rows)
    return [found[job_id] for job_id in job_ids]


@on_failure
def report(failed: FailedAttempt) -> None:
    """Note the failures that the office reads, in a thread: a hook must not block."""
    if failed.is_final and failed.work_type in REPORTED:
        deferToThread(note, f"failed {failed.work_type}: {failed.error}")


@middleware
async def printed(call_next: Callable[[], Awaitable[object]], job: RunningJob) -> object:
    """Print each task that succeeds."""
    result = await call_next()
    print(f"{job.work_type} succeeded in job {job.id}")
    return result


@task(retry=ONCE)
def send_receipt(order: int) -> None:
    note(f"receipt {order}")


@task(retry=ONCE)
def notify_warehouse(order: int) -> None:
    note(f"warehouse {order}")


@task(retry=Retry(attempts=6, first=1, factor=2, longest=600, fatal=(ValueError, TypeError)))
def send_welcome(job: RunningJob, user: int, language: str = "en") -> None:
    note(f"try welcome {user}")
    if job.attempt < 3:
        raise ConnectionError("the mail server does not answer")
    note(f"welcome {user} {language}")


@task(retry=Retry(attempts=4, first=1, factor=1))
def charge_card(job: RunningJob, order: int, amount: int) -> int:
    if job.attempt == 1:
        raise ConnectionError("the bank does not answer")
    note(f"charged {order} {amount}")
    return amount


@task(retry=Retry(attempts=3, first=1, factor=1))
def charge_voucher(order: int) -> None:
    raise ValueError(f"the voucher of order {order} is used up")


@task(retry=ONCE)
def refund(job: RunningJob, voucher_job: int) -> Discard | None:
    if job.parents is None or not job.parents.failed:
        return Discard("the voucher was charged")
    [[error]] = query("select error from txqueue.job where job_id = %s", voucher_job)
    note(f"refund after {error.splitlines()[-1].removeprefix('ValueError: ')}")
    return None


@task(retry=ONCE)
def remind(user: int) -> None:
    note(f"remind {user}")


@task(retry=ONCE)
def cancel_unpaid(order: int) -> None:
    note(f"cancelled {order}")


@task(retry=ONCE, expires=True)
def flash_offer(offer: str) -> None:
    note(f"offer {offer}")


@task(retry=ONCE)
def fetch_price(supplier: str) -> dict[str, Any]:
    return {"supplier": supplier, "price": len(supplier)}


@task(retry=ONCE)
def compare_prices(price_jobs: list[int]) -> str:
    best = min(results_of(price_jobs), key=lambda each: each["price"])
    note(f"best price {best['supplier']}")
    return str(best["supplier"])


@task(retry=ONCE, queue="pictures")
def resize(picture: str, width: int) -> str:
    return f"{picture}@{width}"


@task(retry=ONCE)
def read_catalogue(path: str, shop: str) -> Next:
    return Next(check_rows.work([f"{path}-{row}" for row in (1, 2, 3)], shop))


@task(retry=ONCE)
def check_rows(rows: list[str], shop: str | None = None) -> Next | list[str]:
    good = [row for row in rows if not row.endswith("2")]
    return good if shop is None else Next(publish.work(good, shop))


@task(retry=ONCE)
def publish(rows: list[str], shop: str) -> int:
    note(f"published {len(rows)} rows in {shop}")
    return len(rows)


@task(retry=ONCE, queue="stock")
def sync_stock(sku: str) -> None:
    note(f"stock {sku}")


@task(retry=ONCE, runtime=Runtime.ASYNCIO, timeout=10)
async def rebuild_index(size: int) -> str:
    try:
        async with asyncio.timeout(1):
            await asyncio.sleep(size)
    except TimeoutError:
        await asyncio.to_thread(note, "index given up")
        return "given up"
    return "built"


@slow_task
def export_invoices(month: str) -> None:
    if month == "never":
        raise LookupError("no such month")
    note(f"invoices {month}")


@task(retry=ONCE, schedule=Cron("0 3 * * *", tz="Europe/Berlin"))
def close_day() -> None:
    note("day closed")


@task(retry=ONCE, schedule=Every(2))
def sweep_carts() -> None:
    note("carts swept")


@task(retry=ONCE)
def monday_mail(edition: str = "long") -> None:
    note(f"monday mail {edition}")


REPORTED = {charge_voucher.work_type, export_invoices.work_type}
