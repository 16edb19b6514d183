"""txqueue, and a table without a queue, in ``python -m benchmarks.rivals``."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from attrs import frozen
from rich.progress import Progress

from benchmarks.endings import Steps, drained
from benchmarks.reads import BATCH, batches
from benchmarks.rivals.brief import (
    BATCHED,
    BRIEF_SLOTS,
    OFFERED,
    SINGLE_RATE,
    SLOT_JOBS,
    SLOTS,
    Pace,
    named,
    per_second,
)
from benchmarks.rivals.commits import Enqueuer, Work, started_after
from benchmarks.rivals.rival import (
    CALM,
    EVERY_MS,
    LIMIT,
    RATE,
    STEADY_SECONDS,
    STEPS_SHARE,
    TIMED,
    WAVES,
    WORKERS,
    Figures,
    Rival,
    Stage,
    at_rest,
    ended,
    percentiles,
    statements_in,
)
from benchmarks.rivals.work import Brief, Start, Started, starts_in
from txqueue.demo.environment import Stages, TemporarySchema
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue.store.driver.blocking_connection import connect
from txqueue.store.inquiries.reader import Session
from txqueue.sync import Queue
from txqueue.system.processes import descendants_of
from txqueue_bench.environment import own_schema
from txqueue_bench.tally import noted_numbers

__all__ = ["Bare", "Ours", "RivalBySql"]

APP = "benchmarks.rivals.work"
STEPS_APP = "benchmarks.endings"
WARM_STEPS = 500
WARM_UP = 20
# Has the jobs that warm a node up.
NO_CLIENT = 1 << 20
NUMBERS = '{"client": :client_id, "number": :number}'


def silent() -> Stages:
    """Return what shows no stages."""
    return Stages(Progress(disable=True))


@frozen
class Ours:
    """txqueue, measured by its own commands: by plain SQL, and where the process has joined a node.

    Attributes:
        dsn: The server.
        log: The server's log.
        programs: The folder of pgbench.
    """

    dsn: str
    log: Path
    programs: Path

    @property
    def stages(self) -> Mapping[str, Stage]:
        """All measurements."""
        return {
            "bulk": self.bulk,
            "idle": lambda _: self.idle("", "--road", "claim"),
            "steady": lambda _: self.steady("steady_", RATE, "--road", "claim"),
            "joined": lambda _: self.idle("joined_") | self.steady("steady_joined_", RATE),
            "rest": self.rest,
            "held": self.held,
            "steps": self.steps,
            "slots": self.slots,
            "pressure": self.pressure,
            "reads": self.reads,
            "batches": self.batches,
            **Enqueuer(self.programs, lambda: working(self.dsn)).stages,
        }

    @property
    def alone(self) -> Mapping[str, Stage]:
        """The measurements that are made without a node, too."""
        stages = Enqueuer(self.programs, lambda: enqueuing(self.dsn)).stages
        return {row: stages[row] for row in ("standby", "commit_delay")}

    def bench(self, *what: object) -> dict[str, Any]:
        """Return the answer of ``txqueue bench``."""
        line = [Path(sys.executable).parent / "txqueue", "bench", *what, "--json"]
        told = subprocess.run(
            [*map(str, line)],
            env={**os.environ, "TXQUEUE_DSN": self.dsn},
            check=True,
            timeout=LIMIT,
            stdout=subprocess.PIPE,
        )
        return dict(json.loads(told.stdout))

    def bulk(self, jobs: int) -> Figures:
        """Measure enqueueing, and a drain."""
        enqueued = self.bench("enqueue", "--jobs", jobs)
        return {
            "one_at_a_time": enqueued["one_at_a_time_per_second"],
            "bulk": enqueued["bulk_per_second"],
            "drain": self.bench("drain", "--jobs", jobs, "--workers", WORKERS)["jobs_per_second"],
        }

    def idle(self, way: str, *road: str) -> Figures:
        """Measure how soon a job starts on an idle worker."""
        told = self.bench("latency", "--jobs", TIMED, *road)
        return shown(way, told)

    def steady(self, way: str, rate: int, *road: str) -> Figures:
        """Measure how soon jobs start at a steady pace, and what they cost."""
        told = self.bench("steady", "--rate", rate, "--seconds", STEADY_SECONDS, *road)
        return {**shown(way, told), f"{way}cpu": told["cpu_seconds_per_1000"]}

    def slots(self, _: int) -> Figures:
        """Measure drains of jobs of 1 ms with some numbers of slots."""
        return {f"slots_{count}": self._slotted(count) for count in SLOTS}

    def _slotted(self, count: int) -> float:
        with warm_node(self.dsn, capacity=count // WORKERS) as (_, session, node):
            return drained(session, node, partial(Brief, NO_CLIENT), count * SLOT_JOBS).speed

    def pressure(self, _: int) -> Figures:
        """Measure what runs of more jobs than can run, and how soon."""
        told = self.paced(OFFERED)
        return {"pressure": told["ran"], "pressure_p99": told["p99"]}

    def reads(self, _: int) -> Figures:
        """Measure reading a job's state by the client's call, and by a bare select."""
        with (
            warm_node(self.dsn) as (target, session, _node),
            Queue.connect(target.dsn, schema=target.schema) as queue,
            psycopg.connect(target.dsn, autocommit=True) as connection,
        ):
            table = f"{target.schema}.job"
            number = session.value(f"select max(job_id) from {table}")
            bare = f"select * from {table} where job_id = {number}".encode()
            return {
                "reads": per_second(lambda: queue.job(number)),
                "reads_bare": per_second(lambda: connection.execute(bare).fetchone()),
            }

    def batches(self, _: int) -> Figures:
        """Measure how soon single jobs and those of batches start; and batches by plain SQL."""
        timed = self.steady("single_", SINGLE_RATE, "--road", "claim")
        timed |= named("batch", self.paced(BATCHED))
        # Last, as of the others: what they write reaches the disk later.
        with own_schema(self.dsn, silent()) as target, target.session() as session:
            publish(session, Started)
            told = asyncio.run(batches(target, 1))
        return {
            **timed,
            "batch_sql": told["enqueue_many"],
            "batch_sql_each": told["enqueue"],
            "batch_sql_bare": told["insert"],
        }

    def paced(self, pace: Pace) -> Figures:
        """Return how many of such jobs ran in a second, and how soon they started."""
        sent: dict[tuple[int, int], int] = {}
        with (
            warm_node(self.dsn, capacity=BRIEF_SLOTS // WORKERS) as (target, session, node),
            Queue.connect(target.dsn, schema=target.schema) as queue,
        ):
            for batch in pace.batches():
                sent.update(dict.fromkeys(((1, n) for n in batch), time.time_ns() // 1000))
                queue.enqueue_many([Brief(1, number) for number in batch])
            wait_until_done(session, node, pace.jobs, lambda _: None)
            starts = starts_in(noted_numbers(target.folder))
        moments = [moment for client, _, moment in starts if client == 1]
        ran = len(moments) / (max(moments) - min(moments)) * 1e6
        return {"ran": ran, **started_after(sent, starts)}

    def rest(self, _: int) -> Figures:
        """Measure an idle node with one worker that has run some jobs."""
        with warm_node(self.dsn, workers=1) as warm:
            node = warm[-1]
            time.sleep(CALM)
            return at_rest([node.pid, *descendants_of(node.pid)], self.statements)

    def held(self, jobs: int) -> Figures:
        """Measure the last wave of jobs under a held snapshot, as a part of the first."""
        size = ("--jobs", max(1, jobs // WAVES), "--waves", WAVES, "--rounds", 1)
        told = self.bench("decay", *size, "--workers", WORKERS, "--held-snapshot")
        return {"held": told["ratio"]}

    def steps(self, jobs: int) -> Figures:
        """Measure a drain of jobs of five empty steps, with a node that has run some."""
        with (
            own_schema(self.dsn, silent()) as target,
            target.session() as session,
            RunningNode(target, STEPS_APP, WORKERS, settings={"PYTHONPATH": importable()}) as node,
        ):
            publish(session, Steps)
            drained(session, node, Steps, WARM_STEPS)
            return {"steps": drained(session, node, Steps, max(1, jobs // STEPS_SHARE)).speed}

    def statements(self) -> int:
        """Return how many statements the log has of the database."""
        return statements_in(self.log.read_text("utf-8", "replace"), "postgres")


def shown(way: str, told: Mapping[str, Any]) -> Figures:
    """Return the percentiles that ``txqueue bench`` has told."""
    return {f"{way}{part}": told[f"{part}_ms"] for part in ("p50", "p95", "p99")}


@contextmanager
def warm_node(
    dsn: str, workers: int = WORKERS, capacity: int = 100
) -> Iterator[tuple[TemporarySchema, Session, RunningNode]]:
    """Run a node that has run some jobs, in a schema of its own."""
    settings = {"PYTHONPATH": importable(), "TXQUEUE_CAPACITY": str(capacity)}
    with (
        own_schema(dsn, silent()) as target,
        target.session() as session,
        RunningNode(target, APP, workers, settings=settings) as node,
    ):
        enqueue_all(session, (Started(NO_CLIENT, 1) for _ in range(WARM_UP)), lambda _: None)
        wait_until_done(session, node, WARM_UP, lambda _: None)
        yield target, session, node


def importable() -> str:
    """Return the path by which a node, which has another working folder, imports this package."""
    root = str(Path(__file__).parents[2])
    return os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))


@contextmanager
def working(dsn: str) -> Iterator[Work]:
    """Make a queue with a node."""
    with warm_node(dsn) as (target, session, node):

        def finish() -> list[Start]:
            wait_until_done(session, node, 1, lambda _: None)
            return starts_in(noted_numbers(target.folder))

        yield Work(dsn, statement(target), finish)


@contextmanager
def enqueuing(dsn: str) -> Iterator[Work]:
    """Make a queue without a node."""
    with own_schema(dsn, silent()) as target, target.session() as session:
        publish(session, Started)
        yield Work(dsn, statement(target), list)


def statement(target: TemporarySchema) -> str:
    """Return the statement that enqueues a job."""
    return f"select {target.schema}.enqueue('{Started.work_type}', '{NUMBERS}')"


@frozen
class Bare:
    """A table: what the server and the network take without a queue.

    Attributes:
        dsn: The server.
        programs: The folder of pgbench.
    """

    dsn: str
    programs: Path

    @property
    def stages(self) -> Mapping[str, Stage]:
        """The measurements that are made of it, too."""
        stages = Enqueuer(self.programs, self.working).stages
        return {"idle": self.idle, **{row: each for row, each in stages.items() if row != "lone"}}

    @contextmanager
    def working(self) -> Iterator[Work]:
        """Make the table."""
        with Session(self.dsn) as session:
            session.rows("drop table if exists public.bare")
            session.rows("create table public.bare (id bigserial primary key, payload jsonb)")
            yield Work(self.dsn, f"insert into public.bare (payload) values ('{NUMBERS}')", list)

    def idle(self, _: int) -> Figures:
        """Measure an insert, one every 20 ms: half a round trip there, a commit, and half back."""
        with (
            self.working() as work,
            closing(connect(work.dsn, "bare insert")) as connection,
            connection.cursor() as cursor,
        ):
            began, took = time.monotonic(), []
            for number in range(TIMED):
                time.sleep(max(0.0, began + number * EVERY_MS / 1000 - time.monotonic()))
                before = time.monotonic()
                cursor.execute("insert into public.bare (payload) values ('{}')")
                took.append((time.monotonic() - before) * 1000)
        return percentiles(took)


@frozen
class RivalBySql:
    """Another queue whose jobs are enqueued by SQL.

    Attributes:
        rival: The queue, whose program has a task "started".
        programs: The folder of pgbench.
        add: The statement that enqueues a job.
        many: That which enqueues 500.
    """

    rival: Rival
    programs: Path
    add: str
    many: str

    @property
    def dsn(self) -> str:
        """Its database."""
        place = self.rival.environment
        return "host={PGHOST} port={PGPORT} user={PGUSER} dbname={PGDATABASE}".format_map(place)

    @property
    def stages(self) -> Mapping[str, Stage]:
        """All measurements."""
        return {
            **{row: each for row, each in self.rival.stages.items() if row != "reads"},
            "batches": self.batches,
            **Enqueuer(self.programs, self.working).stages,
        }

    def batches(self, jobs: int) -> Figures:
        """Measure batches, also by plain SQL."""
        figures = self.rival.stages["batches"](jobs)
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            singly = per_second(lambda: connection.execute(self.many.encode()))
        self.rival.drain()
        return {**figures, "batch_sql": BATCH * singly}

    @contextmanager
    def working(self) -> Iterator[Work]:
        """Run its worker."""
        with self.rival.begin_ready() as process:

            def finish() -> list[Start]:
                self.rival.wait_until_done()
                return [(*each,) for each in ended(process)["started"]]

            try:
                yield Work(self.dsn, self.add.format(NUMBERS), finish)
            finally:
                process.kill()
