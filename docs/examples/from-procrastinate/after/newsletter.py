"""The tasks of the newsletter, on txqueue; before/newsletter.py is the same for procrastinate."""

import asyncio
import os
from collections.abc import Awaitable, Callable

import psycopg

from txqueue import (
    Cron,
    Every,
    Key,
    Priority,
    Retry,
    RunningJob,
    Runtime,
    UniqueMode,
    middleware,
    task,
)

DSN = os.environ["TXQUEUE_DSN"]
ONCE = Retry(attempts=1)


async def note(line: str) -> None:
    """Write a line into the ledger."""
    async with await psycopg.AsyncConnection.connect(DSN) as connection:
        await connection.execute("insert into ledger (line) values (%s)", [line])


@middleware
async def announced(call_next: Callable[[], Awaitable[object]], job: RunningJob) -> object:
    """Say which task has ended."""
    result = await call_next()
    print(f"{job.work_type} succeeded in job {job.id}")
    return result


@task(name="mails:confirm", runtime=Runtime.ASYNCIO, retry=ONCE)
async def confirm(subscriber: str) -> None:
    await note(f"confirm {subscriber}")


@task(
    name="mails:send_issue",
    queue="bulk",
    runtime=Runtime.ASYNCIO,
    retry=Retry(attempts=3, first=1, factor=1, fatal=(LookupError, TypeError, ValueError)),
)
async def send_issue(job: RunningJob, subscriber: str, issue: int) -> None:
    if job.attempt < 3:
        raise ConnectionError("the mail server does not answer")
    await note(f"issue {issue} to {subscriber}")


@task(name="mails:bounce", runtime=Runtime.ASYNCIO, retry=Retry(attempts=2, first=0.1))
async def bounce(subscriber: str) -> None:
    await note(f"try bounce of {subscriber}")
    raise LookupError(f"no subscriber {subscriber}")


@task(
    name="rebuild_list",
    runtime=Runtime.ASYNCIO,
    retry=ONCE,
    unique="rebuild",
    unique_mode=UniqueMode.AGAIN,
)
async def rebuild_list(number: int) -> None:
    await note(f"list {number} rebuilt")


@task(name="charge", runtime=Runtime.ASYNCIO, retry=ONCE, group=Key("account {account}"))
async def charge(account: int, amount: int) -> None:
    await asyncio.sleep(0.1)
    await note(f"account {account} charged {amount}")


@task(name="remind", runtime=Runtime.ASYNCIO, retry=ONCE, priority=Priority.HIGH)
async def remind(subscriber: str) -> None:
    await note(f"remind {subscriber}")


@task(name="import_file", runtime=Runtime.ASYNCIO, retry=ONCE)
async def import_file(job: RunningJob, path: str) -> None:
    for number in (1, 2):
        await job.then(confirm.work(f"{path}-{number}"))
    await note(f"{path} imported by job {job.work_type}")


@task(name="render", queue="bulk", retry=ONCE)
def render(issue: int) -> None:
    with psycopg.connect(DSN) as connection:
        connection.execute("insert into ledger (line) values (%s)", [f"issue {issue} rendered"])


@task(name="digest", runtime=Runtime.ASYNCIO, retry=ONCE, schedule=Cron("0 7 * * mon"))
async def digest(job: RunningJob) -> None:
    assert job.due is not None
    await note(f"digest of {job.due:%Y}")


@task(name="clean_up", runtime=Runtime.ASYNCIO, retry=ONCE, schedule=Every(2))
async def clean_up() -> None:
    await note("cleaned up")
