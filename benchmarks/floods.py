"""What a login without rights on the schema costs a drain by locks and notifications.

    python -m benchmarks.floods [jobs [rounds]]

Runs a fresh embedded server each time. In turn, one node drains a full queue alone, and while a
login that may only connect floods the database: advisory locks on the names that txqueue uses and
on any numbers, locks on its tables, notifications on its channels.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from statistics import median
from threading import Event, Thread
from typing import Final

import psycopg2
from psycopg2.extensions import make_dsn
from rich.console import Console

from txqueue.demo.environment import Stages, bars
from txqueue_bench.drain import drain
from txqueue_bench.environment import warm_schema

LOGIN: Final = "flooding"
SESSIONS: Final = 3
A_SECOND: Final = 200
FLOODS: Final = {
    "nothing": "",
    "advisory locks": """
        select pg_try_advisory_lock(hashtextextended(name, 839)), pg_try_advisory_lock(number)
          from unnest(array['txqueue control', 'txqueue', 'default', 'migrate']) as name,
               generate_series(1, 50) as number""",
    "table locks": "lock table txqueue.job in access exclusive mode nowait",
    "notifications": "select pg_notify('txqueue', '')",
}


@contextmanager
def flooded(dsn: str, sql: str) -> Iterator[None]:
    """Have some sessions run a statement again and again meanwhile; an empty one for none."""
    is_over = Event()

    def flood() -> None:
        with psycopg2.connect(make_dsn(dsn, user=LOGIN)) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            while not is_over.wait(1 / A_SECOND):
                with suppress(psycopg2.Error):
                    cursor.execute(sql)

    threads = [Thread(target=flood) for _ in range(SESSIONS)] if sql else []
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def measure(stages: Stages, jobs: int, sql: str) -> int:
    """Drain once under a flood; returns jobs a second."""
    with warm_schema(stages) as target:
        with target.session() as session:
            session.rows(f"create role {LOGIN} login")
        with flooded(target.dsn, sql):
            return int(drain(target, stages, jobs, 2)["jobs_per_second"])


def main(words: Sequence[str]) -> None:
    """Measure in turn, and print the medians and what they are of the first."""
    jobs, rounds = [*map(int, words), *(100_000, 3)[len(words) :]]
    speeds: dict[str, list[int]] = {name: [] for name in FLOODS}
    with bars() as stages:
        for _ in range(rounds):
            for name, sql in FLOODS.items():
                speeds[name].append(measure(stages, jobs, sql))
    normal = median(speeds["nothing"])
    for name, found in speeds.items():
        Console().print(
            f"{name:<15} {median(found):>9,.0f}/s  {median(found) / normal:.2f}  {found}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
