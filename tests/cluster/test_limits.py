"""What may run at once while workers die: decided from recorded runs."""

from __future__ import annotations

import os
import random
import signal
from typing import Any

from tests.cluster.app import Grouped
from tests.cluster.conftest import LIMIT
from tests.cluster.database import Database
from tests.cluster.history import Run, most_at_once, runs_of
from tests.cluster.nodes import Node, Nodes
from tests.waiting import eventually, pause
from txqueue import WorkQueue

GROUPS, JOBS = 50, 60


def recorded(db: Database, queue: str, killed: dict[int, float] | None = None) -> list[Run]:
    """The runs of a queue's jobs that the application noted."""
    notes = db.rows(
        "select job_id, run.attempt, what, pid, extract(epoch from at)::float8 as at"
        " from run join txqueue.job using (job_id) where queue = %s",
        queue,
    )
    return runs_of(notes, killed or {})


async def test_groups_never_overlap_while_workers_die(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """Fifty groups on two nodes whose workers are killed at random: one of each runs at a time."""
    started = [nodes.start("--workers", "2") for _ in range(2)]
    for node in started:
        await node.up(2)
    works = [Grouped(f"g{n % GROUPS}", n, 0.001) for n in range(GROUPS * JOBS)]
    await queue.enqueue_many(works)
    killed = await kill_now_and_then(started, db, GROUPS * JOBS)
    await eventually(lambda: db.states() == {"done": GROUPS * JOBS}, LIMIT)
    assert len(killed) >= 3
    groups: dict[int, str] = {
        row["job_id"]: row["key"]
        for row in db.rows('select job_id, "group" as key from txqueue.job')
    }
    by_group: dict[str, list[Run]] = {}
    for run in recorded(db, "default", killed):
        by_group.setdefault(groups[run.job_id], []).append(run)
    assert {key: most_at_once(runs) for key, runs in by_group.items()} == {
        f"g{number}": 1 for number in range(GROUPS)
    }


async def kill_now_and_then(started: list[Node], db: Database, jobs: int) -> dict[int, float]:
    """Kill a worker whenever another eighth of the jobs is done; returns when each died."""
    chance = random.Random(839)
    killed: dict[int, float] = {}
    while (done := db.states().get("done", 0)) < jobs * 3 / 4:
        await pause(0.05)
        # Of both nodes, as one of them may have none just then.
        living: Any = sorted(set().union(*(node.workers for node in started)) - set(killed))
        if living and done >= jobs * (len(killed) + 1) / 8:
            pid = chance.choice(living)
            os.kill(pid, signal.SIGKILL)
            killed[pid] = db.value("select extract(epoch from clock_timestamp())::float8")
    return killed
