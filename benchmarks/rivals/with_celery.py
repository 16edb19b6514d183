"""Celery in ``python -m benchmarks.rivals``, run in a virtual environment with it.

python with_celery.py migrate | one SECONDS | bulk JOBS | work | send JOBS MILLISECONDS

Finds its Redis by REDIS_SOCKET. Prints one line of JSON at the end; ``work`` prints "ready" first,
and ends at SIGTERM. A worker runs its tasks in its own process (the pool "solo", which is faster
than "prefork" for tasks that do nothing), fetches many ahead, and stores no results.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from typing import Any

from celery import Celery
from celery.signals import worker_ready

AHEAD = 500

app = Celery("rival", broker=f"redis+socket://{os.environ['REDIS_SOCKET']}")
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=AHEAD,
    worker_redirect_stdouts=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)
times: list[float] = []
took: list[float] = []


@app.task(name="noop")
def noop(number: int) -> None:  # noqa: ARG001 (as the others have it)
    """Do nothing."""
    times.append(time.monotonic())


@app.task(name="timed")
def timed(sent: float) -> None:
    """Note how long it took to get here."""
    took.append((time.monotonic() - sent) * 1000)


def migrate() -> dict[str, Any]:
    """Do nothing: Redis needs no tables."""
    return {}


def one(limit: str) -> dict[str, Any]:
    """Enqueue one by one for some seconds."""
    began, count = time.monotonic(), 0
    with app.producer_or_acquire() as producer:
        while time.monotonic() - began < float(limit):
            count += 1
            noop.apply_async((count,), producer=producer)
    return {"per_second": count / (time.monotonic() - began)}


def bulk(jobs: str) -> dict[str, Any]:
    """Enqueue many; it has no call for many at once."""
    began = time.monotonic()
    with app.producer_or_acquire() as producer:
        for number in range(int(jobs)):
            noop.apply_async((number,), producer=producer)
    return {"per_second": int(jobs) / (time.monotonic() - began)}


def work(_: str = "bulk") -> dict[str, Any]:
    """Run jobs until SIGTERM."""
    worker_ready.connect(say_ready)
    line = "--quiet worker --pool solo --without-gossip --without-mingle --without-heartbeat"
    with suppress(SystemExit):
        app.worker_main(line.split())
    ends = {"first": times[0], "last": times[-1]} if times else {"first": None, "last": None}
    return {"count": len(times), **ends, "took": took}


def say_ready(**_: object) -> None:
    """Say that the worker consumes."""
    print("ready", flush=True)


def send(jobs: str, every: str) -> dict[str, Any]:
    """Enqueue one by one, each at its moment."""
    began = time.monotonic()
    with app.producer_or_acquire() as producer:
        for sent in range(int(jobs)):
            time.sleep(max(0.0, began + sent * float(every) / 1000 - time.monotonic()))
            timed.apply_async((time.monotonic(),), producer=producer)
    return {}


def main(verb: str, *given: str) -> None:
    """Carry it out, print."""
    verbs: dict[str, Any] = {each.__name__: each for each in (migrate, one, bulk, work, send)}
    print(json.dumps(verbs[verb](*given)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
