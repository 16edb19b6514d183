"""``python -m txqueue_bench.client``: an application that enqueues at a steady pace."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater, react

from txqueue.client.node_link import Membership
from txqueue.client.queue import IClientReactor, WorkQueue
from txqueue.system.processes import freeze_loaded_objects
from txqueue_bench.work import Timed

__all__ = ["main"]

# Seconds in which a node must grant credit, once its workers have started.
PATIENCE = 60.0
LOOK = 0.05


async def run(
    reactor: IClientReactor, node: str, warm_up: int, jobs: int, every: float
) -> dict[str, Any]:
    """Enqueue jobs by direct dispatch to a node; each carries the time just before its enqueue.

    Loaded objects are excluded from garbage collections, whose cost depends on the application.

    Args:
        reactor: The running reactor.
        node: The node's endpoint.
        warm_up: How many untimed jobs come first.
        jobs: How many timed jobs follow.
        every: Seconds between two enqueues, whether or not the previous one has committed.

    Returns:
        The seconds taken for the timed jobs, and how many of them were delivered without a claim.
    """
    freeze_loaded_objects()
    queue = await WorkQueue.connect(node=node)
    membership = queue.membership
    assert membership is not None
    try:
        await _credit(reactor, membership)
        await _send(reactor, queue, warm_up, every, is_timed=False)
        before, began = membership.delivered, time.monotonic()
        await _send(reactor, queue, jobs, every, is_timed=True)
        seconds = time.monotonic() - began
    finally:
        await queue.close()
    return {"seconds": seconds, "delivered": membership.delivered - before}


async def _send(
    reactor: IClientReactor, queue: WorkQueue, jobs: int, every: float, *, is_timed: bool
) -> None:
    enqueued = []
    began = reactor.seconds()
    for number in range(jobs):
        await deferLater(reactor, max(0.0, began + number * every - reactor.seconds()))
        sent_at = time.clock_gettime_ns(time.CLOCK_MONOTONIC) if is_timed else 0
        enqueued.append(Deferred.fromCoroutine(queue.enqueue(Timed(sent_at))))
    # Wait before collecting thousands of results, which would delay the last job.
    await enqueued[-1]
    await gatherResults(enqueued)


async def _credit(reactor: IClientReactor, membership: Membership) -> None:
    deadline = time.monotonic() + PATIENCE
    while not membership.credit and time.monotonic() < deadline:
        await deferLater(reactor, LOOK)


def main() -> None:
    """Read the parameters from standard input and print the result, both as JSON."""
    orders = json.load(sys.stdin)

    async def measure(reactor: IClientReactor) -> None:
        print(json.dumps(await run(reactor, **orders)), flush=True)

    react(lambda reactor: Deferred.fromCoroutine(measure(reactor)))


if __name__ == "__main__":
    os.environ.pop("TXQUEUE_NODE", None)
    main()
