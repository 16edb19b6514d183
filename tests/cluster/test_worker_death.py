"""Worker processes that die: their jobs run again, and no other job is lost."""

import os
import signal
from collections.abc import Callable

import pytest

from tests.cluster.app import Blocks, Completes, Kills, Noop, Noted
from tests.cluster.database import Database
from tests.cluster.nodes import Nodes
from tests.cluster.peers import free_port
from tests.cluster.test_health import probed
from tests.waiting import eventually
from txqueue import WorkQueue
from txqueue.errors import JobFailed

LIMIT = 240.0

both_starts = pytest.mark.parametrize("start", ["fork", "spawn"])


@both_starts
async def test_a_killed_worker(
    start: str,
    nodes: Nodes,
    db: Database,
    queue: WorkQueue,
    record_property: Callable[[str, object], None],
) -> None:
    """A job that was running when its process was killed starts again at once, elsewhere."""
    node = await nodes.start("--workers", "2", "--worker-start", start).up(2)
    before = node.workers
    assert len(node.templates) == (start == "fork")
    job_id = await queue.enqueue(Kills(times=1))
    await queue.wait(job_id, LIMIT)
    first, second = db.rows("select at, pid from run where job_id = %s order by at", job_id)
    seconds = (second["at"] - first["at"]).total_seconds()
    record_property("restart_seconds", seconds)
    # The promise is one second; the machine may pause for longer than that.
    assert seconds < 20.0
    assert first["pid"] != second["pid"]
    await eventually(lambda: len(node.workers) == 2, LIMIT)
    assert first["pid"] not in node.workers
    assert len(before & node.workers) == 1


async def test_effects_are_exactly_once(nodes: Nodes, db: Database, queue: WorkQueue) -> None:
    """Rows that a job writes in the transaction that completes it exist once, despite kills."""
    node = await nodes.start("--workers", "2", "--capacity", "5").up(2)
    ids = await queue.enqueue_many([Completes(str(n), seconds=0.05) for n in range(60)])
    for part in (10, 30):
        await eventually(lambda part=part: len(db.runs()) >= part, LIMIT)  # type: ignore[misc]
        await eventually(lambda: node.workers, LIMIT)
        os.kill(max(node.workers), signal.SIGKILL)
    await eventually(lambda: db.states() == {"done": 120}, LIMIT)
    rows = db.rows("select job_id, count(*) as n from effect group by 1")
    assert {row["job_id"]: row["n"] for row in rows} == dict.fromkeys(ids, 1)


@pytest.mark.parametrize("after", [0.0, 0.1], ids=["at once", "later"])
async def test_poison(after: float, nodes: Nodes, db: Database, queue: WorkQueue) -> None:
    """A job that always kills its process is failed and says so; the others end done."""
    node = nodes.start("--workers", "2")
    poison = await queue.enqueue(Kills(after=after))
    innocent = await queue.enqueue_many([Noted(0.3) for _ in range(30)])
    with pytest.raises(JobFailed, match="poison"):
        await queue.wait(poison, LIMIT)
    for job_id in innocent:
        await queue.wait(job_id, LIMIT)
    assert db.states() == {"done": 30, "failed": 1}
    assert db.job(poison)["deaths"] == db.runs()[poison]
    # Beside it, beside it once more, and once among suspects: see docs/explanation/job-life.md.
    assert max(db.job(job_id)["deaths"] for job_id in innocent) <= 3
    await node.up(2)


async def test_a_long_suspect_keeps_no_job_waiting(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """It runs in a process of its own, beside the only worker, and so does another suspect."""
    suspect, other = [await queue.enqueue(Noted(seconds)) for seconds in (3600.0, 0.0)]
    for job_id, deaths in ((suspect, 4), (other, 3)):
        db.execute("update txqueue.job set deaths = %s where job_id = %s", deaths, job_id)
    node = await nodes.start("--workers", "1").up(1)
    await eventually(lambda: suspect in db.runs(), LIMIT)
    later = await queue.enqueue(Noted())
    for job_id in (other, later):
        await queue.wait(job_id, LIMIT)
    pids = {run["job_id"]: run["pid"] for run in db.rows("select job_id, pid from run")}
    assert len(set(pids.values())) == 3
    os.kill(pids[suspect], signal.SIGKILL)
    with pytest.raises(JobFailed, match="poison"):
        await queue.wait(suspect, LIMIT)
    await node.logged("it was for suspects")
    await eventually(lambda: node.workers == {pids[later]}, LIMIT)


@both_starts
async def test_workers_end_with_their_master(
    start: str, nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """No worker outlives a killed master, not even one that could not do anything about it."""
    node = await nodes.start("--workers", "2", "--worker-start", start).up(2)
    running = await queue.enqueue(Noted(60.0))
    await eventually(lambda: running in db.runs(), LIMIT)
    for pid in node.workers | node.templates:
        os.kill(pid, signal.SIGSTOP)
    node.kill()
    await eventually(lambda: not node.processes(), LIMIT)


@both_starts
async def test_all_workers_die_at_start(start: str, nodes: Nodes, queue: WorkQueue) -> None:
    """The node says why none can import the application, is not ready, and does not hurry."""
    port = free_port()
    options = ("--workers", "1", "--worker-start", start, "--health", f"tcp:{port}")
    node = nodes.start(*options, app="tests.cluster.app_for_masters")
    job_id = await queue.enqueue(Noop())
    await eventually(lambda: node.log.count("not for workers") >= 3, LIMIT)
    assert "a worker could not start: tests.cluster.app_for_masters: RuntimeError" in node.log
    assert (await queue.job(job_id)).attempt == 0
    assert (await queue.job(job_id)).state == "ready"
    status, reason = probed(port, "/readyz")
    assert (status, "no worker process runs" in reason) == (503, True)


async def test_what_waits_in_a_blocked_worker_runs_elsewhere(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """What it has begun stays with it, nothing runs twice, and it works on when it answers."""
    first = await nodes.start("--workers", "1", "--capacity", "100").up(1)
    blocking = await queue.enqueue(Blocks(12.0))
    ids = await queue.enqueue_many([Noop(n) for n in range(30)])
    await eventually(lambda: blocking in db.runs(), LIMIT)
    await nodes.start("--workers", "1").up(1)
    for job_id in ids:
        await queue.wait(job_id, LIMIT)
    # No job that waited had to wait for the handler that blocked.
    assert db.job(blocking)["state"] == "assigned"
    await queue.wait(blocking, LIMIT)
    assert set(db.runs().values()) == {1}
    await first.logged(f"the handler of job {blocking} blocks it")
    await first.logged(f"it is running jobs {blocking}")
    after = await queue.enqueue(Noop())
    await queue.wait(after, LIMIT)


async def test_what_waited_in_a_process_that_died_is_not_blamed(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """One job among thousands kills its processes: no other counts a death."""
    node = nodes.start("--workers", "2")
    ids = await queue.enqueue_many([Noop() for _ in range(5_000)])
    poison = await queue.enqueue(Kills())
    ids += await queue.enqueue_many([Noop() for _ in range(5_000)])
    with pytest.raises(JobFailed, match="poison"):
        await queue.wait(poison, LIMIT)
    await eventually(lambda: db.states() == {"done": len(ids), "failed": 1}, LIMIT)
    assert db.row("select max(deaths) as most from txqueue.job where state = 'done'")["most"] == 0
    await node.up(2)
