"""Oban in ``python -m benchmarks.rivals``, run in a virtual environment with it.

python with_oban.py migrate | one SECONDS | bulk JOBS | work | send JOBS MILLISECONDS

Finds its server by PGHOST and the like. Prints one line of JSON at the end; ``work`` prints
"ready" first, and ends at SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from typing import Any

import uvloop
from oban import Oban, worker
from oban.schema import install

BATCH = 1000
# How many jobs run at once; a queue's worker fetches as many as it has room for.
LIMIT = 2 * BATCH

times: list[float] = []
took: list[float] = []


@worker()
class Noop:
    """Does nothing."""

    async def process(self, _: Any) -> None:
        """Do nothing."""
        times.append(time.monotonic())


@worker()
class Timed:
    """Notes how long it took to get here."""

    async def process(self, job: Any) -> None:
        """Note it."""
        took.append((time.monotonic() - job.args["sent"]) * 1000)


async def migrate(pool: Any) -> dict[str, Any]:
    """Make its tables."""
    await install(pool)
    return {}


async def one(pool: Any, limit: str) -> dict[str, Any]:
    """Enqueue one by one for some seconds."""
    queue, began, count = Oban(pool=pool), time.monotonic(), 0
    while time.monotonic() - began < float(limit):
        count += 1
        await queue.enqueue(Noop.new({"number": count}))
    return {"per_second": count / (time.monotonic() - began)}


async def bulk(pool: Any, jobs: str) -> dict[str, Any]:
    """Enqueue many, 1,000 at a time."""
    queue, began = Oban(pool=pool), time.monotonic()
    for first in range(0, int(jobs), BATCH):
        await queue.enqueue_many(Noop.new({"number": first + place}) for place in range(BATCH))
    return {"per_second": int(jobs) / (time.monotonic() - began)}


async def work(pool: Any, _: str = "bulk") -> dict[str, Any]:
    """Run jobs until SIGTERM."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with Oban(pool=pool, queues={"default": LIMIT}):
        print("ready", flush=True)
        await ended.wait()
    ends = {"first": times[0], "last": times[-1]} if times else {"first": None, "last": None}
    return {"count": len(times), **ends, "took": took}


async def send(pool: Any, jobs: str, every: str) -> dict[str, Any]:
    """Enqueue one by one, each at its moment."""
    queue, began = Oban(pool=pool), time.monotonic()
    for sent in range(int(jobs)):
        await asyncio.sleep(max(0.0, began + sent * float(every) / 1000 - time.monotonic()))
        await queue.enqueue(Timed.new({"sent": time.monotonic()}))
    return {}


async def main(verb: str, *given: str) -> None:
    """Connect, carry it out, print."""
    # An empty DSN: libpq takes the place from the environment.
    pool = await Oban.create_pool(" ")
    try:
        verbs: dict[str, Any] = {each.__name__: each for each in (migrate, one, bulk, work, send)}
        print(json.dumps(await verbs[verb](pool, *given)), flush=True)
    finally:
        await pool.close()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
