"""The part of PGQueuer in ``python -m benchmarks.rivals``, run in a virtual environment with it.

python with_pgqueuer.py migrate | one SECONDS | bulk JOBS | work | send JOBS MILLISECONDS

Finds its server by PGHOST and the like. Prints one line of JSON at the end; ``work`` prints
"ready" first, and ends at SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
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


async def bulk(connection: Any, jobs: str) -> dict[str, Any]:
    """Enqueue many, 1,000 at a time."""
    queries, began = Queries(AsyncpgDriver(connection)), time.monotonic()
    for first in range(0, int(jobs), BATCH):
        payloads = [json.dumps({"number": first + place}).encode() for place in range(BATCH)]
        await queries.enqueue(["noop"] * BATCH, payloads, [0] * BATCH)
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

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
    print("ready", flush=True)
    if kind != "bulk":
        await queuer.run()
    else:
        await queuer.run(
            batch_size=BATCH, max_concurrent_tasks=AT_ONCE, dequeue_timeout=timedelta(seconds=1)
        )
    ends = {"first": times[0], "last": times[-1]} if times else {"first": None, "last": None}
    return {"count": len(times), **ends, "took": took}


async def send(connection: Any, jobs: str, every: str) -> dict[str, Any]:
    """Enqueue one by one, each at its moment."""
    queries = Queries(AsyncpgDriver(connection))
    began = time.monotonic()
    for sent in range(int(jobs)):
        await asyncio.sleep(max(0.0, began + sent * float(every) / 1000 - time.monotonic()))
        await queries.enqueue("timed", json.dumps({"sent": time.monotonic()}).encode())
    return {}


async def main(verb: str, *given: str) -> None:
    """Connect, carry it out, print."""
    connection = await asyncpg.connect()
    try:
        verbs: dict[str, Any] = {each.__name__: each for each in (migrate, one, bulk, work, send)}
        print(json.dumps(await verbs[verb](connection, *given)), flush=True)
    finally:
        await connection.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
