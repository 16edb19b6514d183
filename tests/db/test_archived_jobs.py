"""Jobs that exist only in the archive: found by number, awaited, repeated and counted."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from tests.dashboards import served
from tests.db.conftest import Cli
from tests.db.letters import opened
from tests.db.masters import Master, master
from tests.db.past import LEAVES, fill
from tests.waiting import running_reactor
from txqueue.archive.writing import archive
from txqueue.errors import ArchiveUnavailable, JobFailed, JobNotFound
from txqueue.model.job import State
from txqueue.node.operators import AdminHandlers
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.inquiries import jobs
from txqueue.store.inquiries.operations import ArchiveProcess
from txqueue.store.inquiries.reader import Session

SPAN = ("--from", "2020-01-01", "--to", "2020-01-02")
CANCELLED = """
    insert into txqueue.job (job_id, rank, not_before, enqueued_at, finished_at, weight, priority,
        lane, state, work_type, queue, options, payload, steps)
    select n, noon, noon, noon, noon, 1, 4, 0, 'cancelled', 'test.kind', 'default',
           '{"parents": {"done": 2, "failed": 1}, "after": [7, 9, 902]}', '{}',
           '[{"name": "charge", "kind": "step", "result": {"id": 7}, "ended_at": "2020-01-01"},
             {"name": "approval", "kind": "signal", "signal": "approved"}]'
      from generate_series(901, 902) as n, (values (timestamptz '2020-01-01 12:00Z')) as at (noon)
"""
AFTER = "select txqueue.enqueue('test.kind', '{}', after => %s, after_any_end => %s)"


@pytest.fixture
def node(migrated_database18: str, tmp_path: Path) -> Iterator[Master]:
    """A session on a database whose day of the past, 60 done and 2 cancelled jobs, is archived."""
    with master(migrated_database18) as session:
        for state in ("done", "cancelled"):
            session.cursor.execute(LEAVES.format(state))
        fill(session, 60)
        session.cursor.execute(CANCELLED)
        with Session(migrated_database18) as archiving:
            archive(archiving, str(tmp_path / "past"))
        session.value("select setval('txqueue.job_id', 1000)")
        assert session.value("select count(*) from txqueue.job") == 0
        yield session


def lose(tmp_path: Path) -> None:
    """Make the archive unreachable."""
    shutil.rmtree(tmp_path / "past")


def test_the_database_tells_where_an_archived_job_is(node: Master, tmp_path: Path) -> None:
    """By its number alone; other numbers are in no archive."""
    for job_id, state in ((1, "done"), (60, "done"), (902, "cancelled")):
        node.cursor.execute("select * from txqueue.find_archived(%s)", (job_id,))
        [(found, day, location)] = node.cursor.fetchall()
        assert (found, str(day), location) == (state, "2020-01-01", str(tmp_path / "past"))
    assert node.value("select count(*) from txqueue.find_archived(61)") == 0
    with pytest.raises(psycopg2.Error, match="job 7 is archived: it was done on 2020-01-01"):
        node.value("select txqueue.repeat(7, 'ann')")


def test_a_job_waits_for_archived_ones_as_for_other_ended_ones(node: Master) -> None:
    """A done parent lets it start at once; a cancelled one cancels it, unless any end counts."""
    numbers = [
        node.value(AFTER, *given)
        for given in (([7, 60], False), ([7, 902], False), ([7, 902], True))
    ]
    states = [
        node.value("select state::text from txqueue.job where job_id = %s", job_id)
        for job_id in numbers
    ]
    assert states == ["ready", "cancelled", "ready"]
    with pytest.raises(psycopg2.Error, match="61"):
        node.value(AFTER, [7, 61], False)


def test_the_steps_of_an_archived_job_are_shown(
    node: Master, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    """What they have returned, and what the job waited for: they are a column of its row."""
    monkeypatch.setenv("TXQUEUE_DSN", node.connection.dsn)
    first, second = json.loads(cli("steps", "901", "--json").out)["steps"]
    assert (first["name"], first["result"]) == ("charge", {"id": 7})
    assert second["signal"] == "approved"


def test_queues_without_twisted_read_and_await_an_archived_job(node: Master) -> None:
    """As the queue with Twisted does."""
    pytest.importorskip("psycopg")
    from txqueue import aio, sync

    async def found() -> tuple[object, object]:
        async with await aio.Queue.connect(node.connection.dsn) as queue:
            assert await queue.wait(8, timeout=30) is None
            with pytest.raises(JobNotFound, match="there is no job 61"):
                await queue.job(61)
            return await queue.job(8), (await queue.job(902)).state

    with ThreadPoolExecutor(1) as thread, sync.Queue.connect(node.connection.dsn) as queue:
        job, state = thread.submit(asyncio.run, found()).result()
        assert (queue.job(8), state) == (job, State.CANCELLED)
        with pytest.raises(JobFailed, match="job 902 is cancelled"):
            queue.wait(902, timeout=30)


async def test_a_client_reads_awaits_and_repeats_an_archived_job(node: Master) -> None:
    """As if it were in the table."""
    async with opened(node.connection.dsn) as queue:
        job = await queue.job(8)
        assert (job.state, job.work_type, job.payload["n"]) == (State.DONE, "test.kind", 8)
        assert job.finished_at is not None
        assert await queue.wait(8, timeout=30) is None
        with pytest.raises(JobFailed, match="job 902 is cancelled"):
            await queue.wait(902, timeout=30)
        copy = await queue.repeat(8)
        assert (await queue.job(copy)).payload == job.payload
        with pytest.raises(JobNotFound, match="there is no job 61"):
            await queue.job(61)


async def test_an_unreachable_archive_is_named(node: Master, tmp_path: Path) -> None:
    """By the calls that need it; another number is as unknown as before."""
    lose(tmp_path)
    async with opened(node.connection.dsn) as queue:
        for call in (queue.job, queue.wait, queue.repeat):
            with pytest.raises(ArchiveUnavailable, match=f"{tmp_path}/past"):
                await call(8)
        with pytest.raises(JobNotFound, match="there is no job 61"):
            await queue.job(61)


def test_an_archive_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A location may hang without end."""
    monkeypatch.setattr(jobs, "READ_WITHIN", 0.001)
    with pytest.raises(ArchiveUnavailable, match=r"job 8 was not read within 0\.001 s"):
        jobs.read_archived([], 8)


async def test_operators_of_a_node_find_an_archived_job(node: Master) -> None:
    """Its columns, and where it is."""
    unused: Any = None
    pool = ConnectionPool(running_reactor(), node.connection.dsn, 1, "test")
    handlers = AdminHandlers(
        pool,
        "txqueue",
        description=unused,
        lease=unused,
        workers=unused,
        find_archived=ArchiveProcess(running_reactor()).job,
    )
    try:
        job = json.loads((await handlers._get_job("ann", 8))["job"])
        assert (job["job_id"], job["state"], job["archived"]) == (8, "done", True)
        why = json.loads((await handlers._explain("ann", 902))["explanation"])
        assert "is archived" in why["detail"]
        with pytest.raises(JobNotFound):
            await handlers._explain("ann", 61)
    finally:
        pool.close()


def test_a_batch_is_counted_whose_callback_or_jobs_are_archived(node: Master, cli: Cli) -> None:
    """From the outcomes that the callback got, and from the jobs' last states."""
    command = ["--dsn", node.connection.dsn, "--json", "batch"]
    told = json.loads(cli(*command, "902").out)
    assert [told[name] for name in ("jobs", "done", "failed", "left")] == [3, 2, 1, 0]
    callback = node.value(AFTER, [7, 60, 902], True)
    node.complete(node.claim()[0])
    told = json.loads(cli(*command, str(callback)).out)
    assert [told[name] for name in ("jobs", "done", "cancelled", "left")] == [3, 2, 1, 0]


@pytest.mark.parametrize("is_noted", [True, False])
def test_an_unreachable_archive_leaves_the_rest_of_a_list(
    node: Master, tmp_path: Path, cli: Cli, *, is_noted: bool
) -> None:
    """With a warning for each day that is missing; days of an earlier release have no sums."""
    if not is_noted:
        node.cursor.execute("update txqueue.archived set ids = null, hours = null")
    lose(tmp_path)
    for command in ("history", "stats"):
        said = cli("--dsn", node.connection.dsn, "--json", command, *SPAN)
        unread = json.loads(said.out)["unread"]
        if command == "stats" and is_noted:
            assert unread == []
        else:
            assert f"the archive at {tmp_path}/past cannot be used" in unread[0]
            assert f"warning: {unread[0]}" in said.err


async def test_the_page_of_an_archived_job(node: Master, tmp_path: Path) -> None:
    """With what the archive has, and the keys that its type declares; without it, the reason."""
    path = [[["a", None], ["b"]]]
    keys = {"group": ["c{:", {"path": path[0], "kind": "text"}], "tenant": None}
    policy = {"work_type": "test.kind", "queue": "default", "priority": 4, "weight": 1}
    node.value("select txqueue.publish(%s)", json.dumps([{**policy, "policy": {"keys": keys}}]))
    async with served(node.connection.dsn) as browser:
        page = await browser.get("/jobs/8")
        assert page.status == 200
        assert ">archived<" in page.text
        assert "c{{:{a.b}" in page.text
        assert "computed by its class" in page.text
        assert (await browser.get("/jobs/61")).status == 404
        lose(tmp_path)
        page = await browser.get("/jobs/8")
        assert (page.status, str(tmp_path / "past") in page.text) == (409, True)
