"""txqueue, and a table without a queue, in ``python -m benchmarks.rivals``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

from attrs import frozen
from rich.progress import Progress

from benchmarks.endings import Steps, drained
from benchmarks.rivals.commits import Enqueuer, Work
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
    statements_in,
)
from benchmarks.rivals.work import Start, Started, starts_in
from txqueue.demo.environment import Stages, TemporarySchema
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue.store.driver.blocking_connection import connect
from txqueue.store.inquiries.reader import Session
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
            "steady": lambda _: self.steady("", "--road", "claim"),
            "joined": lambda _: self.idle("joined_") | self.steady("joined_"),
            "rest": self.rest,
            "held": self.held,
            "steps": self.steps,
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
        return {f"{way}p50": told["p50_ms"], f"{way}p99": told["p99_ms"]}

    def steady(self, way: str, *road: str) -> Figures:
        """Measure how soon jobs start at a steady pace, and what they cost."""
        told = self.bench("steady", "--rate", RATE, "--seconds", STEADY_SECONDS, *road)
        return {
            f"steady_{way}p50": told["p50_ms"],
            f"steady_{way}p99": told["p99_ms"],
            f"steady_{way}cpu": told["cpu_seconds_per_1000"],
        }

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


@contextmanager
def warm_node(
    dsn: str, workers: int = WORKERS
) -> Iterator[tuple[TemporarySchema, Session, RunningNode]]:
    """Run a node that has run some jobs, in a schema of its own."""
    settings = {"PYTHONPATH": importable()}
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
        parts = quantiles(took, n=100)
        return {"p50": parts[49], "p99": parts[98]}


@frozen
class RivalBySql:
    """Another queue whose jobs are enqueued by SQL.

    Attributes:
        rival: The queue, whose program has a task "started".
        programs: The folder of pgbench.
        add: The statement that enqueues a job.
    """

    rival: Rival
    programs: Path
    add: str

    @property
    def stages(self) -> Mapping[str, Stage]:
        """All measurements."""
        return {**self.rival.stages, **Enqueuer(self.programs, self.working).stages}

    @contextmanager
    def working(self) -> Iterator[Work]:
        """Run its worker."""
        place = self.rival.environment
        dsn = "host={PGHOST} port={PGPORT} user={PGUSER} dbname={PGDATABASE}".format_map(place)
        with self.rival.begin_ready() as process:

            def finish() -> list[Start]:
                self.rival.wait_until_done()
                return [(*each,) for each in ended(process)["started"]]

            try:
                yield Work(dsn, self.add.format(NUMBERS), finish)
            finally:
                process.kill()
