"""Threads that hang: their worker is found stuck, shown and replaced, and the node still ends."""

import signal
import time

import pytest

from tests.cluster.app import Noop
from tests.cluster.app_of_processes import Hangs, HangsSilently, WaitsLong
from tests.cluster.nodes import Node, Nodes
from tests.cluster.peers import free_port
from tests.cluster.test_health import probed
from tests.waiting import eventually
from txqueue import WorkQueue
from txqueue.errors import JobFailed

APP = "tests.cluster.app_of_processes"
LIMIT = 120.0


async def hang(queue: WorkQueue, number: int) -> None:
    """Fill a worker's threads with jobs beyond their timeout or heartbeat."""
    kinds = [Hangs, HangsSilently]
    for job_id in await queue.enqueue_many([kinds[each % 2]() for each in range(number)]):
        with pytest.raises(JobFailed, match=r"timeout|hung"):
            await queue.wait(job_id, LIMIT)


async def end(node: Node) -> None:
    """End a node that has jobs which do not end."""
    node.signal(signal.SIGTERM)
    await eventually(lambda: "draining" in node.log, LIMIT)
    node.stop_at_once()


@pytest.mark.parametrize("beside", [0, 1])
async def test_a_stuck_worker_is_replaced(beside: int, nodes: Nodes, queue: WorkQueue) -> None:
    """With --kill-stuck, also if a job takes what threads leave; one that had to wait then runs."""
    options = ("--workers", "1", "--capacity", str(3 + beside), "--kill-stuck", "5")
    node = await nodes.start(*options, app=APP).up(1)
    await queue.enqueue_many([WaitsLong()] * beside)
    await hang(queue, 3)
    before = node.workers
    waiting = await queue.enqueue(Noop())
    await queue.wait(waiting, LIMIT)
    assert not before & node.workers
    await node.logged("has started no job for")
    await end(node)


async def test_a_node_ends_although_threads_hang(nodes: Nodes, queue: WorkQueue) -> None:
    """It says that no job can start meanwhile; SIGTERM waits for none of the threads."""
    port = free_port()
    options = ("--workers", "1", "--capacity", "3", "--health", f"tcp:{port}")
    node = await nodes.start(*options, app=APP).up(1)
    await eventually(lambda: probed(port, "/readyz") == (200, "ready"), LIMIT)
    await hang(queue, 3)
    job_id = await queue.enqueue(Noop())
    await eventually(lambda: "can start no job" in node.log, LIMIT)
    assert (await queue.job(job_id)).state == "ready"
    status, reason = probed(port, "/readyz")
    assert (status, "no worker process can start jobs" in reason) == (503, True)
    before = time.monotonic()
    node.stop()
    assert time.monotonic() - before < 60
