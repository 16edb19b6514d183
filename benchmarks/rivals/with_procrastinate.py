"""procrastinate in ``python -m benchmarks.rivals``, run in a virtual environment with it.

python with_procrastinate.py migrate | one SECONDS | bulk JOBS | work | send JOBS MILLISECONDS

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

import procrastinate

BATCH = 1000
CONCURRENCY = 10

app = procrastinate.App(connector=procrastinate.PsycopgConnector())
times: list[float] = []
took: list[float] = []


@app.task(name="noop")
async def noop(number: int) -> None:  # noqa: ARG001 (what is enqueued names it)
    """Do nothing."""
    times.append(time.monotonic())


@app.task(name="timed")
async def timed(sent: float) -> None:
    """Note how long it took to get here."""
    took.append((time.monotonic() - sent) * 1000)


async def migrate() -> dict[str, Any]:
    """Make its tables."""
    await app.schema_manager.apply_schema_async()
    return {}


async def one(limit: str) -> dict[str, Any]:
    """Enqueue one by one for some seconds."""
    began, count = time.monotonic(), 0
    while time.monotonic() - began < float(limit):
        count += 1
        await noop.defer_async(number=count)
    return {"per_second": count / (time.monotonic() - began)}


async def bulk(jobs: str) -> dict[str, Any]:
    """Enqueue many, 1,000 at a time."""
    began = time.monotonic()
    for first in range(0, int(jobs), BATCH):
        await noop.batch_defer_async(*({"number": first + place} for place in range(BATCH)))
    return {"per_second": int(jobs) / (time.monotonic() - began)}


async def work(_: str = "bulk") -> dict[str, Any]:
    """Run jobs until SIGTERM."""
    worker = asyncio.create_task(
        app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
    )
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    print("ready", flush=True)
    await ended.wait()
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    ends = {"first": times[0], "last": times[-1]} if times else {"first": None, "last": None}
    return {"count": len(times), **ends, "took": took}


async def send(jobs: str, every: str) -> dict[str, Any]:
    """Enqueue one by one, each at its moment."""
    began = time.monotonic()
    for sent in range(int(jobs)):
        await asyncio.sleep(max(0.0, began + sent * float(every) / 1000 - time.monotonic()))
        await timed.defer_async(sent=time.monotonic())
    return {}


async def main(verb: str, *given: str) -> None:
    """Connect, carry it out, print."""
    verbs: dict[str, Any] = {each.__name__: each for each in (migrate, one, bulk, work, send)}
    async with app.open_async():
        print(json.dumps(await verbs[verb](*given)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
