"""pgmq in ``python -m benchmarks.rivals``, run in a virtual environment with its client, which
brings the extension's SQL.

python with_pgmq.py migrate | one SECONDS | bulk JOBS [TASK] | work | send JOBS MS [TASK BATCH]

Finds its server by PGHOST and the like. Prints one line of JSON at the end; ``work`` prints
"ready" first, and ends at SIGTERM. pgmq has no worker: this one reads ahead on one connection, runs
so many at a time, and deletes what is done in batches on another.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from typing import Any

import asyncpg
from pgmq.install import get_embedded_install_sql

BATCH = 1000
AT_ONCE = 24
# Seconds until another worker may read a message, and milliseconds between two polls.
HIDDEN, POLL = 60, 2
READ = f"select msg_id, message from pgmq.read_with_poll('jobs', {HIDDEN}, $1, 1, {POLL})"
DELETE = "select pgmq.delete('jobs', $1::bigint[])"
ONE = "select pgmq.send('jobs', $1::jsonb)"
MANY = "select pgmq.send_batch('jobs', $1::jsonb[])"


async def migrate(connection: Any) -> dict[str, Any]:
    """Make its tables."""
    await connection.execute(get_embedded_install_sql())
    await connection.execute("select pgmq.create('jobs')")
    return {}


async def one(connection: Any, limit: str) -> dict[str, Any]:
    """Enqueue one by one for some seconds."""
    began, count = time.monotonic(), 0
    while time.monotonic() - began < float(limit):
        count += 1
        await connection.execute(ONE, json.dumps({"task": "noop", "number": count}))
    return {"per_second": count / (time.monotonic() - began)}


async def bulk(connection: Any, jobs: str, task: str = "noop") -> dict[str, Any]:
    """Enqueue many, 1,000 at a time."""
    began = time.monotonic()
    for first in range(0, int(jobs), BATCH):
        messages = [json.dumps({"task": task, "number": first + place}) for place in range(BATCH)]
        await connection.execute(MANY, messages)
    return {"per_second": int(jobs) / (time.monotonic() - began)}


async def work(connection: Any, kind: str = "bulk") -> dict[str, Any]:
    """Run jobs until SIGTERM."""
    times: list[float] = []
    took: list[float] = []
    done: list[int] = []
    started: list[list[int]] = []
    slots = int(kind.partition("slots_")[2] or AT_ONCE)
    ahead = BATCH if kind == "bulk" else 4 * slots
    waiting: asyncio.Queue[Any] = asyncio.Queue(ahead)
    some_done, stopped = asyncio.Event(), asyncio.Event()

    async def read() -> None:
        while not stopped.is_set():
            for message in await connection.fetch(READ, ahead):
                await waiting.put(message)

    async def perform() -> None:
        while True:
            number, text = await waiting.get()
            payload = json.loads(text)
            times.append(time.monotonic())
            if "sent" in payload:
                took.append((times[-1] - payload["sent"]) * 1000)
            if "client" in payload:
                started.append([payload["client"], payload["number"], time.time_ns() // 1000])
            if payload.get("task") == "brief":
                await asyncio.sleep(0.001)
            done.append(number)
            some_done.set()

    async def delete() -> None:
        other = await asyncpg.connect()
        while await some_done.wait():
            some_done.clear()
            numbers = done[:]
            done.clear()
            await other.execute(DELETE, numbers)

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    tasks = [asyncio.ensure_future(each()) for each in (read, delete, *[perform] * slots)]
    print("ready", flush=True)
    # A poll that is left to the server would hide messages of the next measurement.
    await tasks[0]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    ends = {"first": times[0], "last": times[-1]} if times else {"first": None, "last": None}
    return {"count": len(times), **ends, "took": took, "started": started}


async def send(
    connection: Any, jobs: str, every: str, task: str = "timed", batch: str = "1"
) -> dict[str, Any]:
    """Enqueue one by one or in batches, each at its moment."""
    began = time.monotonic()
    for sent in range(int(jobs) // int(batch)):
        await asyncio.sleep(max(0.0, began + sent * float(every) / 1000 - time.monotonic()))
        message = json.dumps({"task": task, "sent": time.monotonic()})
        many = int(batch) > 1
        await connection.execute(MANY if many else ONE, [message] * int(batch) if many else message)
    return {}


async def main(verb: str, *given: str) -> None:
    """Connect, carry it out, print."""
    connection = await asyncpg.connect()
    try:
        verbs: dict[str, Any] = {each.__name__: each for each in (migrate, one, bulk, work, send)}
        print(json.dumps(await verbs[verb](connection, *given)), flush=True)
    finally:
        connection.terminate()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
