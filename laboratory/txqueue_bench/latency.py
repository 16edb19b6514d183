"""``bench latency`` and ``bench steady``: measure how soon a job starts."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from attrs import frozen

from txqueue.demo.environment import Advance, Stages, TemporarySchema
from txqueue.demo.node import NodeFailed, RunningNode, publish, wait_until_done
from txqueue.store.driver.blocking_connection import connect
from txqueue_bench.cpu_time import cpu_seconds
from txqueue_bench.tally import noted_numbers
from txqueue_bench.work import Timed

__all__ = ["TrafficPlan", "latency", "percentile", "steady"]

APP = "txqueue_bench.work"
WARM_UP = 20
EVERY = 0.02
# Seconds that a client may need beyond the time of its enqueues.
PATIENCE = 120.0


@frozen
class TrafficPlan:
    """Which jobs a measurement enqueues, and how they are enqueued and run.

    Attributes:
        jobs: How many timed jobs there are; 20 untimed ones before them warm the node up.
        every: Seconds between two enqueues.
        workers: How many worker processes the node has.
        road: ``direct``: a process that has joined the node enqueues, by direct dispatch.
            ``claim``: a client with plain SQL enqueues, and the node claims.
    """

    jobs: int
    every: float
    workers: int
    road: str


@frozen
class _Run:
    """The result of a measurement.

    Attributes:
        seconds: The time in which the timed jobs were enqueued.
        delivered: How many jobs were delivered by direct dispatch, without a claim.
        cpu: The CPU time of node and server in seconds; None if unknown.
    """

    seconds: float
    delivered: int
    cpu: float | None


def latency(
    target: TemporarySchema, stages: Stages, *, jobs: int, workers: int, road: str
) -> dict[str, Any]:
    """Enqueue a job every 20 ms, and measure the time until its handler starts.

    Client and handler read the same host's monotonic clock, the client just before it enqueues, so
    that the commit is part of the time.

    Args:
        target: The schema to measure in.
        stages: Shows the progress.
        jobs: How many timed jobs to enqueue.
        workers: How many worker processes the node has.
        road: ``direct`` or ``claim``; see `TrafficPlan`.

    Returns:
        The document that ``--json`` prints.
    """
    plan = TrafficPlan(jobs, EVERY, workers, road)
    return {"workload": "latency", **_result(target, plan, _measured(target, stages, plan))}


def steady(
    target: TemporarySchema, stages: Stages, *, rate: int, seconds: int, workers: int, road: str
) -> dict[str, Any]:
    """Enqueue at a steady rate; measure the time until handlers start, and the CPU time.

    Args:
        target: The schema to measure in.
        stages: Shows the progress.
        rate: Jobs per second.
        seconds: For how long to enqueue.
        workers: How many worker processes the node has.
        road: ``direct`` or ``claim``; see `TrafficPlan`.

    Returns:
        The document that ``--json`` prints.
    """
    plan = TrafficPlan(rate * seconds, 1 / rate, workers, road)
    run = _measured(target, stages, plan)
    result = {"workload": "steady", "rate": rate, **_result(target, plan, run)}
    if run.cpu is not None:
        result["cpu_seconds_per_1000"] = round(run.cpu / plan.jobs * 1000, 3)
    return result


def _result(target: TemporarySchema, plan: TrafficPlan, run: _Run) -> dict[str, Any]:
    took = sorted(noted_numbers(target.folder))
    return {
        "jobs": plan.jobs,
        "seconds": round(run.seconds, 3),
        "workers": plan.workers,
        "road": plan.road,
        **{f"p{part}_ms": _ms(percentile(took, part)) for part in (50, 95, 99)},
        "max_ms": _ms(took[-1] if took else 0),
        "started": len(took),
        "delivered": run.delivered,
        **target.facts(),
    }


def _measured(target: TemporarySchema, stages: Stages, plan: TrafficPlan) -> _Run:
    with target.session() as session:
        publish(session, Timed)
        with RunningNode(target, APP, plan.workers) as node:
            stages.begin("warming up")
            _send(target, WARM_UP, EVERY, lambda _: None, is_timed=False)
            wait_until_done(session, node, WARM_UP, lambda _: None)
            backend = int(session.value("select pg_backend_pid()"))
            before = cpu_seconds(node.pid, backend)
            seconds, delivered = _sent(target, node, stages, plan)
            wait_until_done(session, node, plan.jobs, lambda _: None)
            after = cpu_seconds(node.pid, backend)
    cpu = None if before is None or after is None else after - before
    return _Run(seconds, delivered, cpu)


def _sent(
    target: TemporarySchema, node: RunningNode, stages: Stages, plan: TrafficPlan
) -> tuple[float, int]:
    what = f"one every {plan.every * 1000:g} ms"
    if plan.road == "direct":
        stages.begin(what)
        return _by_a_client(node, plan)
    began = time.monotonic()
    _send(target, plan.jobs, plan.every, stages.begin(what, plan.jobs), is_timed=True)
    return time.monotonic() - began, 0


def _by_a_client(node: RunningNode, plan: TrafficPlan) -> tuple[float, int]:
    orders = {
        "node": node.endpoint,
        "warm_up": WARM_UP,
        "jobs": plan.jobs,
        "every": plan.every,
    }
    client = subprocess.run(
        [sys.executable, "-m", "txqueue_bench.client"],
        env=node.environment(),
        input=json.dumps(orders).encode(),
        capture_output=True,
        timeout=PATIENCE + 2 * plan.jobs * plan.every,
        check=False,
    )
    if client.returncode != 0:
        sys.stderr.buffer.write(client.stderr)
        raise NodeFailed("the client that enqueues has failed", "see its output above")
    answer = json.loads(client.stdout.splitlines()[-1])
    return answer["seconds"], answer["delivered"]


def _send(
    target: TemporarySchema, jobs: int, every: float, advance: Advance, *, is_timed: bool
) -> None:
    """Enqueue by the driver itself, as an application does: `Session` starts a thread each time."""
    statement = f"select {target.schema}.enqueue(%s, %s)"
    due = time.monotonic()
    connection = connect(target.dsn, "txqueue bench")
    with closing(connection), connection.cursor() as cursor:
        for number in range(1, jobs + 1):
            time.sleep(max(due - time.monotonic(), 0))
            due += every
            sent_at = time.clock_gettime_ns(time.CLOCK_MONOTONIC) if is_timed else 0
            cursor.execute(statement, (Timed.work_type, json.dumps({"sent_at": sent_at})))
            advance(number)


def percentile(ordered: Sequence[int], part: int) -> int:
    """Return a percentile, such as 95, of numbers in ascending order; 0 without numbers."""
    return ordered[math.ceil(len(ordered) * part / 100) - 1] if ordered else 0


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)
