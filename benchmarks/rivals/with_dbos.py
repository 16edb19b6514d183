"""The part of DBOS in ``python -m benchmarks.rivals``, run in a virtual environment with it.

python with_dbos.py migrate | bulk JOBS | work

Finds its server by PGHOST and the like. Prints one line of JSON at the end; ``work`` ends at
SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dbos import DBOS, DBOSClient, DBOSConfig

QUEUE = "steps"
STEPS = 5
CLIENTS = 8
# Workers that poll more often, or each without a limit, disturb each other.
POLL = 0.1
AT_ONCE = 100
POOL = 20
URL = (
    f"postgresql://{os.environ['PGUSER']}@/{os.environ['PGDATABASE']}"
    f"?host={os.environ['PGHOST']}&port={os.environ['PGPORT']}"
)

_times: list[float] = []


@DBOS.step()
def nothing() -> None:
    """Do nothing."""


@DBOS.workflow()
def steps(number: int) -> None:  # noqa: ARG001 - as the others have one
    """Do five empty steps."""
    _times.append(time.monotonic())
    for _ in range(STEPS):
        nothing()
    _times.append(time.monotonic())


def launch() -> None:
    """Connect, and make its tables if they are not there."""
    config: DBOSConfig = {
        "name": "rival",
        "system_database_url": URL,
        "application_version": "1",
        "log_level": "ERROR",
        "executor_id": str(os.getpid()),
        "sys_db_pool_size": POOL,
    }
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=AT_ONCE, polling_interval_sec=POLL)


def migrate() -> dict[str, Any]:
    """Make its tables."""
    launch()
    DBOS.destroy()
    return {}


def bulk(jobs: str) -> dict[str, Any]:
    """Enqueue many."""
    client = DBOSClient(system_database_url=URL)
    options: Any = {"workflow_name": "steps", "queue_name": QUEUE, "app_version": "1"}
    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(lambda number: client.enqueue(options, number), range(int(jobs))))
    client.destroy()
    return {"per_second": int(jobs) / (time.monotonic() - began)}


def work(_: str = "bulk") -> dict[str, Any]:
    """Run jobs until SIGTERM."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    launch()
    print("ready", flush=True)
    over.wait()
    DBOS.destroy()
    ends = {"first": _times[0], "last": _times[-1]} if _times else {"first": None, "last": None}
    return {"count": len(_times) // 2, **ends}


if __name__ == "__main__":
    verbs: dict[str, Any] = {each.__name__: each for each in (migrate, bulk, work)}
    print(json.dumps(verbs[sys.argv[1]](*sys.argv[2:])), flush=True)
    os._exit(0)
