"""What the processes of a node take of memory, by the way in which its workers are started.

    python -m benchmarks.footprint [workers ...]

Runs a fresh embedded server. For each number of workers and each way to start them, a node drains
some jobs and rests; then the memory of its processes is read from the kernel. RSS counts a shared
page in each process that has it, PSS divides it among them: the sum of PSS is what the node takes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import frozen
from rich.console import Console

from txqueue.demo.environment import Pace, TemporarySchema, bars, embedded_schema
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue.store.inquiries.reader import Session
from txqueue.system.processes import descendants_of, workers_of
from txqueue_bench.work import Counted

APP = "txqueue_bench.work"
STARTS = ("spawn", "fork")
WORKERS = (1, 2, 4, 8)
JOBS = 20_000
# Seconds for a node to rest after the jobs.
REST = 6.0


@frozen
class Footprint:
    """The memory of some processes together, in KiB."""

    rss: int
    pss: int

    @classmethod
    def of(cls, pids: Iterable[int]) -> Footprint:
        """Read the memory of these processes."""
        lines = [line.split() for pid in pids for line in _rollup(pid)]
        return cls(*(sum(int(it[1]) for it in lines if it[0] == key) for key in ("Rss:", "Pss:")))

    def mib(self, among: int = 1) -> dict[str, float]:
        """Return RSS and PSS for each of some processes, in MiB."""
        return {
            "rss": round(self.rss / 1024 / among, 1),
            "pss": round(self.pss / 1024 / among, 1),
        }


def _rollup(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]


def footprint(target: TemporarySchema, workers: int, start: str) -> dict[str, Any]:
    """Measure the processes of a node that rests after some jobs."""
    with target.session() as session, _node(target, workers, start) as node:
        _drain(session, node, JOBS)
        time.sleep(REST)
        pids, its_workers = [node.pid, *descendants_of(node.pid)], workers_of(node.pid)
        templates = set(pids) - {node.pid, *its_workers}
        assert len(its_workers) == workers, "some workers are still to start"
        return {
            **{"workers": workers, "start": start},
            "master": Footprint.of([node.pid]).mib(),
            "template": Footprint.of(templates).mib(),
            "worker": Footprint.of(its_workers).mib(workers),
            "node": Footprint.of(pids).mib(),
        }


def _drain(session: Session, node: RunningNode, jobs: int) -> None:
    publish(session, Counted)
    enqueue_all(session, map(Counted, range(1, jobs + 1)), lambda _: None)
    wait_until_done(session, node, jobs, lambda _: None, Pace(least=0.002, share=0.01))


def _node(target: TemporarySchema, workers: int, start: str) -> RunningNode:
    settings = {"TXQUEUE_WORKER_START": start}
    return RunningNode(target, APP, workers, f"{start}-{workers}", settings)


def main(*workers: int) -> None:
    """Run and print."""
    fleets = [(count, start) for count in workers or WORKERS for start in STARTS]
    with bars() as stages, embedded_schema(stages) as target:
        rows = [footprint(target, count, start) for count, start in fleets]
        facts = target.facts()
    Console().print_json(data={"mib": rows, **facts})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
