"""What a job costs: processor time, WAL and rows written, by step, and what that comes to.

    python -m benchmarks.cost [jobs [rounds]]

Runs a fresh embedded server: jobs are enqueued in bulk, and drained by a node. Prints the medians,
and what they come to at a hundred million jobs an hour: docs/explanation/scale.md is computed from
it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence

from attrs import asdict, frozen
from rich.console import Console

from benchmarks.history import APP, WORKERS
from txqueue.demo.environment import Pace, TemporarySchema, bars, embedded_schema
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue.store.inquiries.reader import Session
from txqueue_bench.cpu_time import cpu_seconds
from txqueue_bench.work import Counted

HOURLY = 100_000_000
# Seconds in which workers have imported what they need.
REST = 8.0
# Tables of txqueue's alone; what the catalog is written for rotation is next to nothing.
ROWS = """
    select coalesce(sum(n_tup_ins + n_tup_upd), 0), coalesce(sum(n_tup_del), 0)
      from pg_stat_all_tables where schemaname = %s
"""


@frozen
class Used:
    """What has been used so far, or between two moments."""

    server: float
    node: float
    wal: float
    inserted: float
    deleted: float

    def since(self, former: Used, jobs: int) -> Used:
        """What was used since a moment, for each of some jobs; times in microseconds."""
        before, now = asdict(former), asdict(self)
        scale = {"server": 1e6, "node": 1e6}
        return Used(**{key: (now[key] - before[key]) * scale.get(key, 1) / jobs for key in now})


def used(session: Session, group: int = -1) -> Used:
    """Look at all counters."""
    backend = int(session.value("select pg_backend_pid()"))
    server, both = cpu_seconds(-1, backend) or 0.0, cpu_seconds(group, backend) or 0.0
    wal = float(session.value("select pg_current_wal_lsn() - '0/0'"))
    session.rows("select pg_stat_force_next_flush()")
    # Counts of other sessions become visible within a second.
    time.sleep(1.5)
    inserted, deleted = session.rows(ROWS, (session.schema,))[0]
    return Used(server, both - server, wal, float(inserted), float(deleted))


def measured(target: TemporarySchema, session: Session, jobs: int) -> tuple[Used, Used]:
    """Enqueue jobs, and have them drained; returns what each cost in either."""
    start = used(session)
    enqueue_all(session, map(Counted, range(1, jobs + 1)), lambda _: None)
    enqueued = used(session).since(start, jobs)
    # What the node's own start costs is not to be counted.
    session.rows(f"select {session.schema}.pause('queue', 'default', 'benchmark')")
    with RunningNode(target, APP, WORKERS) as node:
        time.sleep(REST)
        before = used(session, node.pid)
        session.rows(f"select {session.schema}.resume('queue', 'default', 'benchmark')")
        wait_until_done(session, node, jobs, lambda _: None, Pace(least=0.5, share=0.01))
        drained = used(session, node.pid).since(before, jobs)
    return enqueued, drained


def medians(name: str, rounds: Sequence[Used]) -> dict[str, float]:
    """The middle of what rounds cost."""
    each = [asdict(one) for one in rounds]
    return {
        f"{name}_{key}": round(statistics.median(one[key] for one in each), 2) for key in each[0]
    }


def main(jobs: int = 200_000, rounds: int = 3) -> None:
    """Measure and print."""
    with bars() as stages, embedded_schema(stages) as target:
        with target.session() as session:
            publish(session, Counted)
            advance = stages.begin("enqueuing and draining", rounds)
            each = []
            for number in range(rounds):
                each.append(measured(target, session, jobs))
                advance(number + 1)
            size = session.value(
                "select sum(pg_total_relation_size(inhrelid)) from pg_inherits"
                f" where inhparent = '{session.schema}.job_done'::regclass"
            )
        facts = target.facts()
    cost = {
        **medians("enqueue", [one for one, _ in each]),
        **medians("drain", [two for _, two in each]),
        "history_octets": round(float(size) / (jobs * rounds)),
    }
    a_second = HOURLY / 3600
    server, wal = (cost[f"enqueue_{name}"] + cost[f"drain_{name}"] for name in ("server", "wal"))
    Console().print_json(
        data={
            "jobs": jobs,
            **cost,
            "hourly": HOURLY,
            "server_cores": round(a_second * server / 1e6, 2),
            "node_cores": round(a_second * cost["drain_node"] / 1e6, 2),
            "wal_megabytes_a_second": round(a_second * wal / 1e6, 1),
            "history_gigabytes_an_hour": round(HOURLY * cost["history_octets"] / 1e9, 1),
            **facts,
        }
    )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
