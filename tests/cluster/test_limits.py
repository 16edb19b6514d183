"""What may run at once, over four nodes and while workers die: decided from recorded runs."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import pytest_twisted

from tests.cluster.app import Grouped, Noted
from tests.cluster.conftest import LIMIT, cluster
from tests.cluster.database import Database
from tests.cluster.history import Run, excess, most_at_once, runs_of
from tests.cluster.nodes import Node, Nodes
from tests.waiting import eventually, pause, within
from txqueue import WorkQueue

GROUPS, JOBS = 50, 60
SET = "select txqueue.set_limit(%s, %s, %s, %s, %s, null, null, 'test')"


@pytest.fixture(scope="module")
def four(shared_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Four nodes of one worker, which serve a queue for each test."""
    with cluster(shared_db, tmp_path_factory.mktemp("four")) as nodes:
        options = ("--workers", "1", "--capacity", "10", "--queues", "limited,later,rated")
        for node in [nodes.start(*options) for _ in range(4)]:
            pytest_twisted.blockon(within(LIMIT, node.up()))
        yield


def recorded(db: Database, queue: str, killed: dict[int, float] | None = None) -> list[Run]:
    """The runs of a queue's jobs that the application noted."""
    notes = db.rows(
        "select job_id, run.attempt, what, pid, extract(epoch from at)::float8 as at"
        " from run join txqueue.job using (job_id) where queue = %s",
        queue,
    )
    return runs_of(notes, killed or {})


async def are_done(db: Database, queue: str) -> None:
    """Wait until all jobs of a queue are done."""
    left = "select count(*) from txqueue.job where queue = %s and state <> 'done'"
    await eventually(lambda: db.value(left, queue) == 0, LIMIT)


@pytest.mark.usefixtures("four")
async def test_a_queues_limit_holds_over_four_nodes(
    shared_db: Database, shared_queue: WorkQueue
) -> None:
    """No more than three run at once, at some time three do, and all are done."""
    shared_db.value(SET, "queue", "limited", 3, None, None)
    await shared_queue.enqueue_many([Noted(0.05) for _ in range(60)], queue="limited")
    await are_done(shared_db, "limited")
    assert most_at_once(recorded(shared_db, "limited")) == 3


@pytest.mark.usefixtures("four")
async def test_a_limit_set_while_jobs_run(shared_db: Database, shared_queue: WorkQueue) -> None:
    """Running jobs continue; no other starts until fewer run than the limit."""
    await shared_queue.enqueue_many([Noted(0.1) for _ in range(120)], queue="later")
    begun = "select count(*) from run join txqueue.job using (job_id) where queue = 'later'"
    await eventually(lambda: shared_db.value(begun) >= 20, LIMIT)
    shared_db.value(SET, "queue", "later", 2, None, None)
    since = shared_db.value("select extract(epoch from clock_timestamp())::float8")
    held = shared_db.value("select count(*) from txqueue.job where state = 'assigned'")
    await are_done(shared_db, "later")
    runs = recorded(shared_db, "later")
    later = sorted((run for run in runs if run.begin > since), key=lambda run: run.begin)
    assert most_at_once(later[held:]) <= 2


@pytest.mark.usefixtures("four")
async def test_a_rate_holds_over_four_nodes(shared_db: Database, shared_queue: WorkQueue) -> None:
    """In no time are more taken than the burst and the rate allow."""
    shared_db.value(SET, "queue", "rated", None, 20.0, 5)
    await shared_queue.enqueue_many([Noted() for _ in range(60)], queue="rated")
    await are_done(shared_db, "rated")
    taken = """select extract(epoch from assigned_at)::float8 as at
                 from txqueue.job where queue = 'rated'"""
    # A job is paid for an instant before it is written down as assigned.
    assert excess([row["at"] for row in shared_db.rows(taken)], 20.0, 5) < 2


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
