"""The part of Absurd in ``python -m benchmarks.rivals``, run in a virtual environment with it.

python with_absurd.py migrate | bulk JOBS | work

Finds its server by PGHOST and the like. Prints one line of JSON at the end; ``work`` ends at
SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from typing import Any

import absurdctl
import psycopg
from absurd_sdk import AsyncAbsurd

QUEUE = "steps"
STEPS = 5
# One of its workers has one connection, which does one thing at a time.
WORKERS, AT_ONCE = 10, 2
POLL = 0.05

_times: list[float] = []


async def nothing() -> None:
    """Do nothing."""


async def steps(_: Any, context: Any) -> None:
    """Do five empty steps."""
    _times.append(time.monotonic())
    for number in range(STEPS):
        await context.step(f"step {number}", nothing)
    _times.append(time.monotonic())


async def connected() -> AsyncAbsurd:
    """Connect as libpq does by its variables."""
    connection = await psycopg.AsyncConnection.connect(autocommit=True)
    app = AsyncAbsurd(connection, queue_name=QUEUE)
    app.register_task("steps")(steps)
    return app


async def migrate() -> dict[str, Any]:
    """Make its tables."""
    connection = await psycopg.AsyncConnection.connect(autocommit=True)
    await connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
    await connection.close()
    await (await connected()).create_queue()
    return {}


async def bulk(jobs: str) -> dict[str, Any]:
    """Enqueue many by plain SQL, as it has no function for that."""
    connection = await psycopg.AsyncConnection.connect(autocommit=True)
    began = time.monotonic()
    await connection.execute(
        "select count(*) from generate_series(1, %s) as number,"
        " absurd.spawn_task(%s, 'steps', jsonb_build_object('number', number))",
        (int(jobs), QUEUE),
    )
    await connection.close()
    return {"per_second": int(jobs) / (time.monotonic() - began)}


async def work(_: str = "bulk") -> dict[str, Any]:
    """Run jobs until SIGTERM."""
    apps = [await connected() for _ in range(WORKERS)]

    def stop() -> None:
        for app in apps:
            app.stop_worker()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    print("ready", flush=True)
    working = (app.start_worker(concurrency=AT_ONCE, poll_interval=POLL) for app in apps)
    await asyncio.gather(*working)
    ends = {"first": _times[0], "last": _times[-1]} if _times else {"first": None, "last": None}
    return {"count": len(_times) // 2, **ends}


if __name__ == "__main__":
    verbs: dict[str, Any] = {each.__name__: each for each in (migrate, bulk, work)}
    print(json.dumps(asyncio.run(verbs[sys.argv[1]](*sys.argv[2:]))), flush=True)
