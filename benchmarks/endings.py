"""What the end of a job costs: drains of jobs that end in different ways, by turns.

    python -m benchmarks.endings [jobs [rounds [kind ...]]]

Runs a fresh embedded server and one node. In each round the queue is filled with jobs of one kind
after the other and drained: jobs that do nothing, return a small value, fail for good, fail once
before they succeed, insert a row in `job.transaction()`,
do five steps, and insert a row in each of five steps. Prints the medians, each as a ratio to
the jobs that do nothing; and for the last also to what the database does of it by itself: `begin`,
an insert, a delete and insert as the completion is, `commit`, a round trip each, from four
connections.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from attrs import define
from rich.console import Console

from benchmarks.history import WORKERS
from txqueue import Retry, WorkItem
from txqueue.demo.environment import Pace, TemporarySchema, bars
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue.store.inquiries.reader import Session
from txqueue_bench.cpu_time import cpu_seconds
from txqueue_bench.environment import warm_schema

APP = "benchmarks.endings"
CONNECTIONS = 4
# Seconds in which workers have imported what they need.
REST = 5.0
TABLES = """
    create table written (number bigint);
    create table plain_assigned (like {0}.job);
    create index on plain_assigned (job_id);
    create table plain_done (like {0}.job);
    create index on plain_done (job_id);
"""
INSERT = "insert into written values (%s)"
MOVE = """
    with gone as (delete from plain_assigned where job_id = %s returning *)
    insert into plain_done select * from gone
"""
# A job that failed once was assigned when its first attempt began.
SPAN = """
    select count(*), extract(epoch from max(finished_at) - least(min(assigned_at),
            (select min(began) from {0}.failed_attempt where job_id >= %(first)s)))
      from {0}.job where job_id >= %(first)s and state in ('done', 'failed')
"""


@define
class Nothing(WorkItem):
    """Does nothing."""

    number: int

    work_type = "benchmarks.endings.nothing"

    async def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Returns(WorkItem):
    """Returns a small value."""

    number: int

    work_type = "benchmarks.endings.returns"

    async def perform(self, job: Any) -> dict[str, int]:  # noqa: ARG002 - the handler's signature
        """Return the number."""
        return {"number": self.number}


@define
class Fails(WorkItem):
    """Fails for good."""

    number: int

    work_type = "benchmarks.endings.fails"
    retry = Retry(attempts=1)

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - the handler's signature
        """Fail."""
        raise ValueError(f"row {self.number} is bad")


@define
class FailsOnce(WorkItem):
    """Fails, and succeeds when it is tried again."""

    number: int

    work_type = "benchmarks.endings.fails_once"
    retry = Retry(attempts=2, first=0.0)

    async def perform(self, job: Any) -> None:
        """Fail at first."""
        if job.attempt == 1:
            raise ValueError(f"row {self.number} is not there yet")


@define
class Writes(WorkItem):
    """Writes a row in the transaction that completes the job."""

    number: int

    work_type = "benchmarks.endings.writes"

    async def perform(self, job: Any) -> None:
        """Write the number."""
        async with job.transaction() as txn:
            await txn.execute(INSERT, (self.number,))


@define
class Steps(WorkItem):
    """Does five steps that do nothing."""

    number: int

    work_type = "benchmarks.endings.steps"

    async def perform(self, job: Any) -> None:
        """Do the steps."""
        for number in range(5):
            await job.step(f"step {number}", _nothing)


@define
class WritesInSteps(WorkItem):
    """Writes a row in each of five steps."""

    number: int

    work_type = "benchmarks.endings.writes_in_steps"

    async def perform(self, job: Any) -> None:
        """Write the number."""
        for number in range(5):
            async with job.step_transaction(f"write {number}") as step:
                if not step.is_done:
                    await step.txn.execute(INSERT, (self.number,))


def _nothing() -> None:
    """Do nothing."""


# Each kind, and the share of the jobs that does in about the same time.
KINDS: dict[str, tuple[type[WorkItem], float]] = {
    "nothing": (Nothing, 1.0),
    "returns": (Returns, 0.5),
    "fails": (Fails, 0.15),
    "fails_once": (FailsOnce, 0.1),
    "writes": (Writes, 0.05),
    "steps": (Steps, 0.05),
    "writes_in_steps": (WritesInSteps, 0.01),
}


@define
class Drain:
    """One drain: jobs a second, and what a job cost the node and the server, in microseconds."""

    speed: float
    node_us: float
    server_us: float


def drained(
    session: Session, node: RunningNode, kind: Callable[[int], WorkItem], jobs: int
) -> Drain:
    """Fill the queue while it is paused, and have it drained."""
    session.rows(f"select {session.schema}.pause('queue', 'default', 'benchmark')")
    first = enqueue_all(session, map(kind, range(jobs)), lambda _: None)[0]
    session.rows(f"analyze {session.schema}.job_ready")
    before = _used(session, node)
    session.rows(f"select {session.schema}.resume('queue', 'default', 'benchmark')")
    wait_until_done(session, node, jobs, lambda _: None, Pace(least=0.2, share=0.01))
    after = _used(session, node)
    count, seconds = session.rows(SPAN.format(session.schema), {"first": first})[0]  # type: ignore[arg-type]
    if count != jobs:
        raise RuntimeError(f"{count} of {jobs} jobs have ended")
    used = [1e6 * (late - early) / jobs for early, late in zip(before, after, strict=True)]
    return Drain(jobs / float(seconds), *used)


def _used(session: Session, node: RunningNode) -> tuple[float, float]:
    """Processor time of the node, and of the server."""
    backend = int(session.value("select pg_backend_pid()"))
    server, both = cpu_seconds(-1, backend) or 0.0, cpu_seconds(node.pid, backend) or 0.0
    return both - server, server


def plain(target: TemporarySchema, session: Session, jobs: int) -> float:
    """Do with bare SQL what a job that writes has done; returns the transactions a second."""
    session.rows("truncate plain_assigned, plain_done")
    session.rows(
        f"insert into plain_assigned select * from {session.schema}.job"
        " where state = 'done' limit %s",
        (jobs,),
    )
    numbers = [row[0] for row in session.rows("select job_id from plain_assigned")]
    session.rows("analyze plain_assigned")

    def write(place: int) -> None:
        with target.session() as other:
            for number in numbers[place::CONNECTIONS]:
                with other.transaction():
                    other.rows(INSERT, (number,))
                    other.rows(MOVE, (number,))

    began = time.monotonic()
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        list(threads.map(write, range(CONNECTIONS)))
    return len(numbers) / (time.monotonic() - began)


def measured(
    target: TemporarySchema, kinds: list[str], jobs: int, rounds: int
) -> tuple[dict[str, list[Drain]], list[float]]:
    """Drain each kind by turns; the first round only warms up."""
    drains: dict[str, list[Drain]] = {name: [] for name in kinds}
    floors = []
    with target.session() as session:
        publish(session, *(KINDS[name][0] for name in kinds))
        session.rows(TABLES.format(session.schema))
        with RunningNode(target, APP, WORKERS) as node:
            time.sleep(REST)
            for number in range(rounds + 1):
                for name in kinds:
                    kind, share = KINDS[name]
                    part = round(jobs * share) if number else 500
                    drains[name].append(drained(session, node, kind, part))
                floors.append(plain(target, session, max(500, jobs // 20)))
    return {name: each[1:] for name, each in drains.items()}, floors[1:]


def main(jobs: int = 60_000, rounds: int = 3, *kinds: str) -> None:
    """Measure and print."""
    chosen = list(kinds or KINDS)
    with bars() as stages, warm_schema(stages) as target:
        stages.begin("draining by turns")
        drains, floors = measured(target, chosen, jobs, rounds)
        facts = target.facts()
    speeds = {name: _median(each, "speed") for name, each in drains.items()}
    base, floor = speeds.get("nothing", 0.0), statistics.median(floors)
    Console().print_json(
        data={
            "jobs": jobs,
            "rounds": rounds,
            **{f"{name}_per_second": round(speed) for name, speed in speeds.items()},
            **{f"{name}_node_us": round(_median(e, "node_us")) for name, e in drains.items()},
            **{f"{name}_server_us": round(_median(e, "server_us")) for name, e in drains.items()},
            **{f"{name}_all": [round(one.speed) for one in e] for name, e in drains.items()},
            "plain_per_second": round(floor),
            "plain_all": [round(one) for one in floors],
            **{f"{name}_ratio": round(s / base, 3) for name, s in speeds.items() if base},
            **(
                {"writes_to_plain": round(speeds["writes"] / floor, 3)}
                if "writes" in speeds
                else {}
            ),
            **facts,
        }
    )


def _median(drains: list[Drain], name: str) -> float:
    return float(statistics.median(getattr(each, name) for each in drains))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])  # type: ignore[arg-type]
