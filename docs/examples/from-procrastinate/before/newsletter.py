"""The tasks of a newsletter, written for procrastinate."""

import asyncio
import os
from datetime import UTC, datetime

import psycopg
from procrastinate import App, Blueprint, JobContext, PsycopgConnector, RetryStrategy

DSN = os.environ["TXQUEUE_DSN"]


async def note(line):
    """Write a line into the ledger."""
    async with await psycopg.AsyncConnection.connect(DSN) as connection:
        await connection.execute("insert into ledger (line) values (%s)", [line])


async def announced(call_next, context, _worker):
    """A middleware of the worker: say which task has ended."""
    result = await call_next()
    print(f"{context.job.task_name} succeeded in job {context.job.id}")
    return result


app = App(
    connector=PsycopgConnector(conninfo=DSN),
    worker_defaults={"worker_middleware": [announced], "concurrency": 20},
)
mails = Blueprint()


@mails.task(name="confirm")
async def confirm(subscriber):
    await note(f"confirm {subscriber}")


@mails.task(
    name="send_issue",
    queue="bulk",
    pass_context=True,
    retry=RetryStrategy(max_attempts=2, wait=1, retry_exceptions=[ConnectionError]),
)
async def send_issue(context: JobContext, subscriber, issue):
    if context.job.attempts < 2:
        raise ConnectionError("the mail server does not answer")
    await note(f"issue {issue} to {subscriber}")


@mails.task(name="bounce", retry=1)
async def bounce(subscriber):
    await note(f"try bounce of {subscriber}")
    raise LookupError(f"no subscriber {subscriber}")


app.add_tasks_from(mails, namespace="mails")


@app.task(name="rebuild_list", queueing_lock="rebuild")
async def rebuild_list(number):
    await note(f"list {number} rebuilt")


@app.task(name="charge")
async def charge(account, amount):
    await asyncio.sleep(0.1)
    await note(f"account {account} charged {amount}")


@app.task(name="remind", priority=3)
async def remind(subscriber):
    await note(f"remind {subscriber}")


@app.task(name="import_file", pass_context=True)
async def import_file(context: JobContext, path):
    await confirm.batch_defer_async({"subscriber": f"{path}-1"}, {"subscriber": f"{path}-2"})
    await note(f"{path} imported by job {context.job.task_name}")


@app.task(name="render", queue="bulk")
def render(issue):
    with psycopg.connect(DSN) as connection:
        connection.execute("insert into ledger (line) values (%s)", [f"issue {issue} rendered"])


@app.periodic(cron="0 7 * * mon")
@app.task(name="digest")
async def digest(timestamp):
    await note(f"digest of {datetime.fromtimestamp(timestamp, UTC):%Y}")


@app.periodic(cron="* * * * * */2", periodic_id="often")
@app.task(name="clean_up")
async def clean_up(timestamp):
    await note(f"cleaned up at second {timestamp % 2}")
