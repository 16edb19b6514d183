"""Child processes: of handlers, of masters and of templates; each end is noticed."""

import os
import signal
from pathlib import Path

import pytest

from tests.cluster.app import Noop
from tests.cluster.app_of_processes import ClosesAll, Hangs, Silent, Speaking
from tests.cluster.database import Database
from tests.cluster.nodes import Nodes
from tests.waiting import eventually
from txqueue import WorkQueue
from txqueue.errors import JobFailed
from txqueue.system.processes import STATE, children_of, stat_of

APP = "tests.cluster.app_of_processes"
LIMIT = 60.0


def zombies(workers: set[int]) -> list[int]:
    """The ended children of the workers that were not waited for."""
    children = [each for worker in workers for each in children_of(worker)]
    return [each for each in children if Path(f"/proc/{each}").exists() and is_zombie(each)]


def is_zombie(pid: int) -> bool:
    """Whether a process has ended and was not waited for."""
    try:
        return stat_of(pid)[STATE] == "Z"
    except OSError:
        return False


@pytest.mark.parametrize("start", ["fork", "spawn"])
async def test_a_handler_waits_for_its_processes(
    start: str, nodes: Nodes, queue: WorkQueue
) -> None:
    """With a pipe or without one; no zombie stays."""
    options = ("--workers", "2", "--capacity", "10", "--worker-start", start)
    node = await nodes.start(*options, app=APP).up(2)
    speaking = await queue.enqueue_many([Speaking() for _ in range(100)])
    silent = await queue.enqueue_many([Silent() for _ in range(10)])
    for job_id in speaking:
        assert await queue.wait(job_id, LIMIT) == str(job_id)
    for job_id in silent:
        assert await queue.wait(job_id, LIMIT) == 3
    await eventually(lambda: not zombies(node.workers), LIMIT)


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("spoiled", ["blocked", "ignored"])
async def test_an_import_that_spoils_the_signal(
    spoiled: str, start: str, nodes: Nodes, queue: WorkQueue
) -> None:
    """Handlers still notice the ends of processes, and a killed worker is replaced."""
    options = ("--workers", "2", "--worker-start", start)
    node = await nodes.start(*options, app=APP, TXQUEUE_TEST_SIGCHLD=spoiled).up(2)
    before = node.workers
    os.kill(min(before), signal.SIGKILL)
    await eventually(lambda: len(node.workers - before) == 1, LIMIT)
    assert await queue.wait(await queue.enqueue(Silent()), LIMIT) == 3
    await queue.wait(await queue.enqueue(Noop()), LIMIT)


@pytest.mark.parametrize(
    "start", ["fork", pytest.param("spawn", marks=pytest.mark.slow("txqueue/node/workers"))]
)
@pytest.mark.parametrize("is_waiting", [False, True], ids=["returns", "waits"])
async def test_a_handler_that_closes_all_descriptors(
    is_waiting: bool, start: str, nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """Its process can report nothing; the master counts its deaths, and other jobs run."""
    options = ("--workers", "2", "--worker-start", start)
    node = await nodes.start(*options, app=APP).up(2)
    closing = await queue.enqueue(ClosesAll(is_waiting))
    others = await queue.enqueue_many([Noop() for _ in range(20)])
    with pytest.raises(JobFailed, match="poison"):
        await queue.wait(closing, LIMIT)
    for job_id in others:
        await queue.wait(job_id, LIMIT)
    assert db.job(closing)["deaths"] == 5
    await node.up(2)


@pytest.mark.parametrize("start", ["fork", "spawn"])
async def test_a_worker_calls_what_is_registered_for_its_exit(
    start: str, nodes: Nodes, queue: WorkQueue
) -> None:
    """Such as the end of an exporter; a function that hangs in a thread does not prevent it."""
    options = ("--workers", "2", "--capacity", "2", "--worker-start", start)
    node = await nodes.start(*options, app=APP).up(2)
    with pytest.raises(JobFailed, match="timeout"):
        await queue.wait(await queue.enqueue(Hangs()), LIMIT)
    workers = node.workers
    node.stop()
    exited = {int(path.name.split("-")[1]) for path in node.folder.glob("exited-*")}
    assert workers <= exited


async def test_a_function_that_hangs_at_exit(nodes: Nodes) -> None:
    """It holds up the end of its node for a limited time."""
    node = await nodes.start("--workers", "2", app=APP, TXQUEUE_TEST_EXIT="hangs").up(2)
    workers = node.workers
    node.stop()
    exited = {int(path.name.split("-")[1]) for path in node.folder.glob("exited-*")}
    assert not workers & exited
