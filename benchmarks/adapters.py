"""What an enqueue over an adapter costs beside the driver's own round trip of the same statement.

    python -m benchmarks.adapters [rounds [jobs]]

Runs a fresh embedded server. In each round each driver sends the statement itself a number of times
and then enqueues as many jobs by its adapter, or the other way round, in a transaction that is
rolled back. Prints the least microseconds per job of all rounds, which are short so that some of
them are not disturbed, and their ratio.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg as asyncpg_driver
import psycopg as psycopg_driver
import psycopg2 as psycopg2_driver
from psycopg2.extensions import parse_dsn
from rich.console import Console
from sqlalchemy import URL, create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from txqueue.adapters import asyncpg, psycopg, psycopg2, sqlalchemy, statement
from txqueue.demo.environment import bars, embedded_schema
from txqueue_bench.work import Timed

WORK = Timed(0)
FORMAT: tuple[str, Any] = statement(WORK, paramstyle="format")
DOLLAR: tuple[str, Any] = statement(WORK, paramstyle="numeric_dollar")
Times = dict[str, list[float]]


async def measured(times: Times, jobs: int, calls: dict[str, Callable[[], Any]]) -> None:
    """Add the microseconds of a call, for each of them."""
    for name, call in calls.items():
        began = time.perf_counter()
        for _ in range(jobs):
            answer = call()
            if isinstance(answer, Awaitable):
                await answer
        times.setdefault(name, []).append((time.perf_counter() - began) / jobs * 1e6)


async def compare(
    rounds: int, jobs: int, raw: Callable[[], Any], ours: Callable[[], Any], end: Callable[[], Any]
) -> dict[str, float]:
    """Measure both in turns, and return the figures of one driver."""
    times: Times = {}
    pair = {"driver": raw, "adapter": ours}
    for number in range(rounds):
        turn = pair if number % 2 else dict(reversed(pair.items()))
        await measured(times, jobs, turn)
        ended = end()
        if isinstance(ended, Awaitable):
            await ended
    least = {name: min(each) for name, each in times.items()}
    return {**least, "ratio": least["adapter"] / least["driver"]}


async def with_psycopg2(dsn: str, rounds: int, jobs: int) -> dict[str, float]:
    """Measure psycopg2."""
    connection = psycopg2_driver.connect(dsn)

    def raw() -> Any:
        with connection.cursor() as cursor:
            cursor.execute(*FORMAT)
            return (cursor.fetchone() or (None,))[0]

    return await compare(
        rounds, jobs, raw, lambda: psycopg2.enqueue(connection, WORK), connection.rollback
    )


async def with_psycopg(dsn: str, rounds: int, jobs: int) -> dict[str, float]:
    """Measure psycopg 3."""
    connection = psycopg_driver.Connection.connect(dsn)

    def raw() -> Any:
        row = connection.execute(FORMAT[0].encode(), FORMAT[1]).fetchone()
        return (row or (None,))[0]

    return await compare(
        rounds, jobs, raw, lambda: psycopg.enqueue(connection, WORK), connection.rollback
    )


async def with_psycopg_async(dsn: str, rounds: int, jobs: int) -> dict[str, float]:
    """Measure psycopg 3, asynchronous."""
    connection = await psycopg_driver.AsyncConnection.connect(dsn)

    async def raw() -> Any:
        cursor = await connection.execute(FORMAT[0].encode(), FORMAT[1])
        return (await cursor.fetchone() or (None,))[0]

    return await compare(
        rounds, jobs, raw, lambda: psycopg.aenqueue(connection, WORK), connection.rollback
    )


async def with_asyncpg(dsn: str, rounds: int, jobs: int) -> dict[str, float]:
    """Measure asyncpg."""
    parts = parse_dsn(dsn)
    connection = await asyncpg_driver.connect(
        host=parts["host"],
        port=int(parts.get("port", 5432)),
        user=parts["user"],
        database=parts["dbname"],
    )
    transactions = [connection.transaction()]
    await transactions[0].start()

    async def end() -> None:
        await transactions.pop().rollback()
        transactions.append(connection.transaction())
        await transactions[0].start()

    return await compare(
        rounds,
        jobs,
        lambda: connection.fetchval(DOLLAR[0], *DOLLAR[1]),
        lambda: asyncpg.enqueue(connection, WORK),
        end,
    )


def url_of(driver: str, dsn: str) -> URL:
    """Return a libpq DSN as SQLAlchemy names it."""
    parts = parse_dsn(dsn)
    place = {"host": parts["host"], "port": parts.get("port", "5432")}
    return URL.create(f"postgresql+{driver}", parts["user"], database=parts["dbname"], query=place)


async def with_sqlalchemy(dsn: str, rounds: int, jobs: int) -> dict[str, float]:
    """Measure SQLAlchemy over psycopg 3."""
    connection = create_engine(url_of("psycopg", dsn)).connect()
    return await compare(
        rounds,
        jobs,
        lambda: connection.exec_driver_sql(*FORMAT).scalar(),
        lambda: sqlalchemy.enqueue(connection, WORK),
        connection.rollback,
    )


async def with_sqlalchemy_async(dsn: str, rounds: int, jobs: int) -> dict[str, float]:
    """Measure SQLAlchemy over asyncpg."""
    async with create_async_engine(url_of("asyncpg", dsn)).connect() as connection:

        async def raw() -> Any:
            return (await connection.exec_driver_sql(*DOLLAR)).scalar()

        return await compare(
            rounds, jobs, raw, lambda: sqlalchemy.aenqueue(connection, WORK), connection.rollback
        )


def main(rounds: int = 400, jobs: int = 10) -> None:
    """Measure and print."""
    with bars() as stages, embedded_schema(stages) as target:
        figures = {
            test.__name__.removeprefix("with_"): asyncio.run(test(target.dsn, rounds, jobs))
            for test in (
                with_psycopg2,
                with_psycopg,
                with_psycopg_async,
                with_asyncpg,
                with_sqlalchemy,
                with_sqlalchemy_async,
            )
        }
    rounded = {
        name: {key: round(value, 2) for key, value in each.items()}
        for name, each in figures.items()
    }
    Console().print_json(data=rounded)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
