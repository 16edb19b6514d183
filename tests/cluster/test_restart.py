"""Hung jobs that an operator restarts: each run ends, whatever holds it, and the job runs again."""

import json

from tests.cluster.app_of_hung import Blocking, InThread, Waiting
from tests.cluster.database import Database
from tests.cluster.nodes import Node, Nodes
from tests.cluster.test_acting import called, told
from tests.waiting import eventually
from txqueue import WorkItem, WorkQueue

APP = "tests.cluster.app_of_hung"
LIMIT = 120.0
OPTIONS = ("--workers", "1", "--capacity", "3")


async def started(queue: WorkQueue, node: Node, work: WorkItem) -> int:
    """Enqueue a job and wait until it hangs on a node."""
    job_id = await queue.enqueue(work)
    await eventually((node.folder / f"ran-{job_id}").exists, LIMIT)
    return int(job_id)


async def test_hung_jobs_run_again(nodes: Nodes, queue: WorkQueue, db: Database) -> None:
    """By one act on all that have run for long: a coroutine's job of a group, and a thread's."""
    node = await nodes.start(*OPTIONS, app=APP).up(1)
    waiting = await started(queue, node, Waiting())
    threaded = await started(queue, node, InThread())
    find = ("jobs", "--running-for", "1s", "--json")

    def are_noted() -> bool:
        found = called(*find, settings={"TXQUEUE_DSN": db.dsn})
        return len(json.loads(found.stdout)["jobs"]) == 2

    await eventually(are_noted, LIMIT)
    said = told(node, "restart", "--all", "--running-for", "1s", "--on", node.name)
    assert (said["restarted"], said["requested"]) == ([threaded], [waiting])
    for job_id in (waiting, threaded):
        assert await queue.wait(job_id, LIMIT) == 1
        job = await queue.job(job_id)
        assert (job.attempt, job.deaths, job.attempts) == (1, 0, ())
    assert len(node.workers) == 1
    again = called("restart", str(threaded), node=node)
    assert again.returncode == 1
    assert f"Job {threaded}: it was done" in again.stdout


async def test_a_worker_that_a_restarted_job_blocks_is_replaced(
    nodes: Nodes, queue: WorkQueue
) -> None:
    """Nothing else ends the run; no death is counted."""
    node = await nodes.start(*OPTIONS, app=APP).up(1)
    before = node.workers
    job_id = await started(queue, node, Blocking())
    await eventually(lambda: "has not answered" in node.log, LIMIT)
    told(node, "restart", str(job_id))
    assert await queue.wait(job_id, LIMIT) == 1
    job = await queue.job(job_id)
    assert (job.attempt, job.deaths) == (1, 0)
    assert not before & node.workers
    await node.logged(f"has restarted job {job_id}, which blocks it")
