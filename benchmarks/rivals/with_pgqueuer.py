"""The part of PGQueuer in ``python -m benchmarks.rivals``, run in a virtual environment with it.

python with_pgqueuer.py migrate | one SECONDS | bulk JOBS [TASK] | work | read SECONDS
    | send JOBS MILLISECONDS [TASK BATCH]

Finds its server by PGHOST and the like. Prints one line of JSON at the end; ``work`` prints
"ready" first, and ends at SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

BATCH = 1000
# Its batches must fit twice into what may run at once.
AT_ONCE = 2 * BATCH


async def migrate(connection: Any) -> dict[str, Any]:
    """Make its tables."""
    await Queries(AsyncpgDriver(connection)).install()
    return {}


async def one(connection: Any, limit: str) -> dict[str, Any]:
    """Enqueue one by one for some seconds."""
    queries, began, count = Queries(AsyncpgDriver(connection)), time.monotonic(), 0
    while time.monotonic() - began < float(limit):
        count += 1
        await queries.enqueue("noop", json.dumps({"number": count}).encode())
    return {"per_second": count / (time.monotonic() - began)}


async def bulk(connection: Any, jobs: str, task: str = "noop") -> dict[str, Any]:
    """Enqueue many, 1,000 at a time."""
    queries, began = Queries(AsyncpgDriver(connection)), time.monotonic()
    for first in range(0, int(jobs), BATCH):
        payloads = [json.dumps({"number": first + place}).encode() for place in range(BATCH)]
        await queries.enqueue([task] * BATCH, payloads, [0] * BATCH)
    return {"per_second": int(jobs) / (time.monotonic() - began)}


async def work(connection: Any, kind: str = "bulk") -> dict[str, Any]:
    """Run jobs until SIGTERM."""
    queuer = PgQueuer(AsyncpgDriver(connection))
    times: list[float] = []
    took: list[float] = []

    @queuer.entrypoint("noop")
    async def noop(_: Job) -> None:
        times.append(time.monotonic())

    @queuer.entrypoint("timed")
    async def timed(job: Job) -> None:
        took.append((time.monotonic() - json.loads(job.payload or b"{}")["sent"]) * 1000)

    @queuer.entrypoint("brief")
    async def brief(job: Job) -> None:
        await noop(job)
        if sent := json.loads(job.payload or b"{}").get("sent"):
            took.append((times[-1] - sent) * 1000)
        await asyncio.sleep(0.001)

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
    print("ready", flush=True)
    if slots := int(kind.partition("slots_")[2] or 0):
        await queuer.run(batch_size=slots // 2, max_concurrent_tasks=slots)
    elif kind != "bulk":
        await queuer.run()
    else:
        await queuer.run(
            batch_size=BATCH, max_concurrent_tasks=AT_ONCE, dequeue_timeout=timedelta(seconds=1)
        )
    ends = {"first": times[0], "last": times[-1]} if times else {"first": None, "last": None}
    return {"count": len(times), **ends, "took": took}


async def send(
    connection: Any, jobs: str, every: str, task: str = "timed", batch: str = "1"
) -> dict[str, Any]:
    """Enqueue one by one or in batches, each at its moment."""
    queries = Queries(AsyncpgDriver(connection))
    began, count = time.monotonic(), int(batch)
    for sent in range(int(jobs) // count):
        await asyncio.sleep(max(0.0, began + sent * float(every) / 1000 - time.monotonic()))
        payload = json.dumps({"sent": time.monotonic()}).encode()
        if count == 1:
            await queries.enqueue(task, payload)
        else:
            await queries.enqueue([task] * count, [payload] * count, [0] * count)
    return {}


async def read(connection: Any, limit: str) -> dict[str, Any]:
    """Read a job's state for some seconds by its call, and as long by a bare select."""
    queries = Queries(AsyncpgDriver(connection))
    (number,) = await queries.enqueue("waiting", b"{}")
    select = "select * from pgqueuer_log where job_id = $1"
    ways: dict[str, Callable[[], Awaitable[Any]]] = {
        "reads": lambda: queries.job_status([number]),
        "reads_bare": lambda: connection.fetch(select, number),
    }
    told = {}
    for name, way in ways.items():
        began, count = time.monotonic(), 0
        while time.monotonic() - began < float(limit):
            await way()
            count += 1
        told[name] = count / (time.monotonic() - began)
    await connection.execute("delete from pgqueuer where id = $1", number)
    return told


async def main(verb: str, *given: str) -> None:
    """Connect, carry it out, print."""
    connection = await asyncpg.connect()
    try:
        known = (migrate, one, bulk, work, send, read)
        verbs: dict[str, Any] = {each.__name__: each for each in known}
        print(json.dumps(await verbs[verb](connection, *given)), flush=True)
    finally:
        await connection.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
