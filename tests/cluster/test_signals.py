"""Signals to a node that runs a job: it drains, stops at once, or goes on, as the page says."""

import os
import signal
import subprocess

import pytest

from tests.cluster.app_of_signals import Noop, UntilTold
from tests.cluster.database import Database
from tests.cluster.nodes import Node, Nodes
from tests.waiting import eventually
from txqueue import WorkQueue
from txqueue.system.processes import children_of

APP = "tests.cluster.app_of_signals"
OPTIONS = ("--workers", "1", "--capacity", "1")
LIMIT = 120.0
# A process ignores what the one that starts it ignores: SIGHUP after `nohup`, SIGINT after `&`.
WITHOUT_IGNORED = ("env", "--default-signal")
AS_PROCESS_1 = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child")


def can_be_process_1() -> bool:
    """Tell whether this account may make a namespace of processes."""
    try:
        done = subprocess.run([*AS_PROCESS_1, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


async def begun(node: Node, queue: WorkQueue) -> int:
    """Enqueue a job and wait until it runs."""
    job_id = await queue.enqueue(UntilTold())
    await eventually((node.folder / f"runs-{job_id}").exists, LIMIT)
    return int(job_id)


def expect_drained(node: Node, job_id: int, waiting: int) -> None:
    """Expect that the running job has ended, and that the waiting one has not begun."""
    assert not node.remaining(), node.log
    assert node.database.job(job_id)["state"] == "done"
    job = node.database.job(waiting)
    assert (job["state"], job["attempt"], job["deaths"]) == ("ready", 0, 0)


async def test_sigterm_drains(nodes: Nodes, queue: WorkQueue) -> None:
    """Signals of no meaning change nothing before; one that follows it closely is the same."""
    node = await nodes.start(*OPTIONS, app=APP, within=WITHOUT_IGNORED).up()
    job_id = await begun(node, queue)
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        node.signal(number)
        await node.logged(f"{number.name} is ignored")
    assert "draining" not in node.log
    # Stopped meanwhile, it gets both at one moment, and not in this order.
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        node.signal(number)
    await node.logged("draining")
    waiting = await queue.enqueue(Noop())
    (node.folder / "told").touch()
    assert -node.ended() in (signal.SIGTERM, signal.SIGINT), node.log
    expect_drained(node, job_id, waiting)


async def test_a_second_signal_kills_the_workers(
    nodes: Nodes, queue: WorkQueue, db: Database
) -> None:
    """The job goes back and spends no attempt; the first signal, Ctrl-C, is the node's end."""
    node = await nodes.start(*OPTIONS, app=APP, within=WITHOUT_IGNORED).up()
    job_id = await begun(node, queue)
    node.signal(signal.SIGINT)
    await node.logged("draining")
    node.stop_at_once()
    assert node.ended() == -signal.SIGINT, node.log
    assert not node.remaining(), node.log
    job = db.job(job_id)
    assert (job["state"], job["attempt"], job["deaths"]) == ("ready", 0, 0)


@pytest.mark.skipif(not can_be_process_1(), reason="this account cannot use unshare")
async def test_process_1_of_a_container_drains(nodes: Nodes, queue: WorkQueue) -> None:
    """Without an init: the kernel drops signals that such a process does not handle."""
    node = nodes.start(*OPTIONS, app=APP, within=(*WITHOUT_IGNORED, *AS_PROCESS_1))
    job_id = await begun(node, queue)
    assert node.info["pid"] == 1
    [master] = children_of(node.pid)
    os.kill(master, signal.SIGUSR1)
    await node.logged("SIGUSR1 is ignored")
    os.kill(master, signal.SIGTERM)
    await node.logged("draining")
    waiting = await queue.enqueue(Noop())
    (node.folder / "told").touch()
    # It cannot end by a signal that it sends itself.
    assert node.ended() == 0, node.log
    expect_drained(node, job_id, waiting)
