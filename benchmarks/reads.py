"""What a read of one job, and jobs by plain SQL, cost beside the statement by hand.

    python -m benchmarks.reads [rounds [reads]]

Runs a fresh embedded server and a node that has run some jobs, whose states are then read by each
way in turn, over one connection: a bare ``select`` of the state, `find_job`, `queue.job()` with and
without Twisted, and the AMP command `GetJob`. Then batches of 500 jobs enter by SQL, beside an
``insert … select`` into a table with the same indexes. Prints the medians a second, and each as a
part of the bare statement's.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import median
from typing import Any

import psycopg
from rich.console import Console
from twisted.internet import asyncioreactor
from twisted.internet.defer import Deferred

from benchmarks.rivals.work import Started
from txqueue.demo.environment import TemporarySchema, bars
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue_bench.environment import warm_schema

__all__ = ["Figures", "batches", "reads"]

APP = "benchmarks.rivals.work"
JOBS = 2_000
BATCH = 500
BATCHES = 10
Figures = dict[str, float]
Way = Callable[[int], Awaitable[Any]]
# The table of a lane, to which a batch goes whole.
TABLE = """
    drop table if exists {0}.bare_jobs;
    create table {0}.bare_jobs (like {0}.job_ready_0 including all);
    truncate {0}.job_ready
"""
VALUES = (
    f"select '{Started.work_type}' as work_type, jsonb_build_object('client', 1, 'number', n)"
    f" as payload from generate_series(1, {BATCH}) as n"
)
BY_SQL = {
    "insert": """insert into {0}.bare_jobs (job_id, rank, not_before, enqueued_at, weight, priority,
        lane, state, work_type, queue, payload) select nextval('{0}.job_id'), now(), now(), now(),
        1, 4, 0, 'ready', work_type, 'default', payload from (%s) as its""",
    "enqueue_many": "select {0}.enqueue_many(min(work_type), array_agg(payload)) from (%s) as its",
    "enqueue": "select count({0}.enqueue(work_type, payload)) from (%s) as its",
}


async def by_turns(rounds: int, ways: Mapping[str, Callable[[], Awaitable[int]]]) -> Figures:
    """Run each way in each round, and return how much each did in a second, by the medians."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            done = await way()
            took[name].append(done / (time.perf_counter() - began))
    # The first round prepares statements.
    return {name: round(median(each[1:]), 1) for name, each in took.items()}


async def reads(
    target: TemporarySchema, node: str, numbers: Sequence[int], rounds: int, count: int
) -> Figures:
    """Return how many reads of jobs there are in a second, by each way.

    Args:
        target: The queue.
        node: The endpoint at which a node answers.
        numbers: The jobs.
        rounds: How often each way has its turn.
        count: How many reads a turn has.
    """
    from txqueue import WorkQueue
    from txqueue.admin import Admin
    from txqueue.aio import Queue

    plain = await psycopg.AsyncConnection.connect(target.dsn, autocommit=True)
    bare = await psycopg.AsyncConnection.connect(target.dsn, autocommit=True)
    aio = await Queue.connect(target.dsn, schema=target.schema)
    twisted = await _future(WorkQueue.connect(target.dsn, schema=target.schema))
    admin = await _future(Admin.connect(node))
    row = f"select state from {target.schema}.job where job_id = %s".encode()
    found = f"select state from {target.schema}.find_job(%s)".encode()
    ways: dict[str, Way] = {
        "select": lambda number: _row(bare, row, number),
        "find_job": lambda number: _row(plain, found, number),
        "aio": aio.job,
        "twisted": lambda number: _future(twisted.job(number)),
        "get_job": lambda number: _future(admin.job(number)),
    }

    async def many(way: Way) -> int:
        for place in range(count):
            await way(numbers[place % len(numbers)])
        return count

    try:
        return await by_turns(rounds, {name: _bound(many, way) for name, way in ways.items()})
    finally:
        admin.close()
        await _future(twisted.close())
        await aio.close()
        await bare.close()
        await plain.close()


async def batches(target: TemporarySchema, rounds: int) -> Figures:
    """Return how many jobs enter in a second by statements of 500, each in its own transaction."""
    async with await psycopg.AsyncConnection.connect(target.dsn, autocommit=True) as connection:

        async def many(sql: str) -> int:
            for _ in range(BATCHES):
                await connection.execute(sql.encode())
            return BATCH * BATCHES

        await connection.execute(TABLE.format(target.schema).encode())
        statements = {name: sql.format(target.schema) % VALUES for name, sql in BY_SQL.items()}
        return await by_turns(rounds, {name: _bound(many, sql) for name, sql in statements.items()})


def _bound(many: Callable[[Any], Awaitable[int]], what: Any) -> Callable[[], Awaitable[int]]:
    return lambda: many(what)


async def _row(connection: psycopg.AsyncConnection[Any], sql: bytes, number: int) -> Any:
    return await (await connection.execute(sql, (number,))).fetchone()


def _future(coroutine: Any) -> asyncio.Future[Any]:
    return Deferred.fromCoroutine(coroutine).asFuture(asyncio.get_running_loop())


async def measured(target: TemporarySchema, rounds: int, count: int) -> dict[str, Figures]:
    """Run a node, and measure all."""
    with target.session() as session:
        publish(session, Started)
        numbers = enqueue_all(session, (Started(1, n) for n in range(JOBS)), lambda _: None)
        with RunningNode(target, APP, 1) as node:
            wait_until_done(session, node, JOBS, lambda _: None)
            read = await reads(target, node.endpoint, numbers, rounds, count)
        return {"reads": read, "batches": await batches(target, rounds)}


def parts(figures: Figures) -> dict[str, str]:
    """Return each figure, with its part of the first one."""
    first = next(iter(figures.values()))
    return {name: f"{each:g} ({each / first:.2f})" for name, each in figures.items()}


def main(rounds: int = 5, count: int = 300) -> None:
    """Measure and print."""
    loop = asyncio.new_event_loop()
    asyncioreactor.install(loop)
    from twisted.internet import reactor

    reactor.startRunning()  # type: ignore[attr-defined]
    with bars() as stages, warm_schema(stages) as target:
        stages.begin("measuring")
        found = loop.run_until_complete(measured(target, rounds, count))
    Console().print_json(data={name: parts(each) for name, each in found.items()})


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
