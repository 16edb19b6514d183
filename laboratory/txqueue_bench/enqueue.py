"""``bench enqueue``: measures how fast an application enqueues jobs one by one and in bulk."""

from __future__ import annotations

import time
from typing import Any

from txqueue.client.blocking import run_in_reactor
from txqueue.client.queue import IClientReactor, WorkQueue
from txqueue.demo.environment import Advance, Stages, TemporarySchema
from txqueue.demo.node import publish
from txqueue_bench.work import Counted

__all__ = ["enqueuing"]

SINGLY_SECONDS = 3.0


def enqueuing(target: TemporarySchema, stages: Stages, jobs: int) -> dict[str, Any]:
    """Measure ``WorkQueue.enqueue`` for 3 seconds, then one call of ``enqueue_many``.

    Both measurements use one connection; no node runs.

    Args:
        target: The schema to measure in.
        stages: Shows the progress.
        jobs: How many jobs to enqueue in bulk, in one transaction.

    Returns:
        The document that ``--json`` prints.
    """
    with target.session() as session:
        publish(session, Counted)
    began = time.monotonic()

    async def measure(reactor: IClientReactor) -> tuple[int, float, float]:
        queue = await WorkQueue.connect(
            target.dsn, schema=target.schema, connections=1, reactor=reactor
        )
        try:
            count, singly = await _singly(queue, stages.begin("one at a time"))
            return count, singly, await _in_bulk(queue, jobs, stages.begin("in bulk", jobs))
        finally:
            await queue.close()

    count, singly, bulk = run_in_reactor(measure)
    return {
        "workload": "enqueue",
        "jobs": count + jobs,
        "seconds": round(time.monotonic() - began, 3),
        "workers": 0,
        "one_at_a_time_per_second": round(singly),
        "bulk_per_second": round(bulk),
        **target.facts(),
    }


async def _singly(queue: WorkQueue, advance: Advance) -> tuple[int, float]:
    count, began = 0, time.monotonic()
    while (passed := time.monotonic() - began) < SINGLY_SECONDS:
        await queue.enqueue(Counted(count + 1))
        count += 1
        if count % 100 == 0:
            advance(count)
    return count, count / passed


async def _in_bulk(queue: WorkQueue, jobs: int, advance: Advance) -> float:
    began = time.monotonic()
    await queue.enqueue_many(map(Counted, range(1, jobs + 1)))
    passed = time.monotonic() - began
    advance(jobs)
    return jobs / passed
