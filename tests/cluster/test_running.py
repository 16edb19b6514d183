"""How jobs run and end: each runtime, each answer, each error, on one shared node."""

import json
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.cluster.app import (
    Answers,
    Exits,
    ExitsInAsyncio,
    ExitsInThread,
    FailsFirst,
    InAsyncio,
    InThread,
    Measures,
    Noop,
    Noted,
    Overruns,
    Prints,
    ReturnsDeferred,
    ReturnsStrange,
    Says,
)
from tests.cluster.database import Database
from tests.cluster.nodes import Node
from tests.waiting import eventually
from txqueue import WorkItem, WorkQueue
from txqueue.errors import JobFailed

pytestmark = pytest.mark.usefixtures("shared_node")

LIMIT = 120.0
NOOP = "tests.cluster.app.Noop"
TEXTS = [
    """it's a "quote" and a \\ backslash""",
    "100 % of %s and %(name)s",
    "<script>alert('x')</script>&amp;",
    "\N{PILE OF POO} \N{FAMILY}\N{ZERO WIDTH JOINER}\N{GIRL} ünï",
    "line\nbreak\ttab\r\x01\x7f",
    "$$ {} @schema@ {{0}} '; drop table run; --",
    "",
]


async def test_a_committed_job_runs(shared_queue: WorkQueue) -> None:
    """A committed job runs, and its result can be waited for."""
    async with shared_queue.transaction() as txn:
        job_id = await txn.enqueue(Says("hello"))
    assert await shared_queue.wait(job_id, LIMIT) == "hello"
    job = await shared_queue.job(job_id)
    assert (job.state, job.attempt, job.error) == ("done", 1, None)


@pytest.mark.parametrize(
    ("work", "result"),
    [
        (Noop(7), None),
        (Noted(0.01), None),
        (ReturnsDeferred(), "from a Deferred"),
        (InAsyncio(), "from asyncio"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, WorkItem) else "",
)
async def test_each_runtime(work: WorkItem, result: object, shared_queue: WorkQueue) -> None:
    """Coroutines, Deferreds and asyncio's coroutines all run, and their results are kept."""
    assert await shared_queue.wait(await shared_queue.enqueue(work), LIMIT) == result


async def test_a_thread(shared_queue: WorkQueue) -> None:
    """A plain function of the THREAD runtime does not run in the main thread."""
    thread = await shared_queue.wait(await shared_queue.enqueue(InThread()), LIMIT)
    assert thread not in ("", "MainThread")


async def test_a_failed_attempt_is_tried_again(
    shared_queue: WorkQueue, shared_db: Database
) -> None:
    """A job that fails runs again, no sooner than its backoff says, until it is done."""
    job_id = await shared_queue.enqueue(FailsFirst(2))
    assert await shared_queue.wait(job_id, LIMIT) == 3
    rows = shared_db.rows("select at from run where job_id = %s order by at", job_id)
    gaps = [later["at"] - sooner["at"] for sooner, later in pairwise(rows)]
    assert len(gaps) == 2
    assert gaps[0] >= timedelta(seconds=0.2)
    assert gaps[1] >= timedelta(seconds=0.4)


async def test_attempts_run_out(shared_queue: WorkQueue) -> None:
    """A job whose attempts are spent is failed, with the traceback of the last one."""
    job_id = await shared_queue.enqueue(FailsFirst(99), attempts=2)
    with pytest.raises(JobFailed, match="not yet in attempt 2"):
        await shared_queue.wait(job_id, LIMIT)
    job = await shared_queue.job(job_id)
    assert (job.state, job.attempt) == ("failed", 2)
    assert job.error is not None
    assert 'raise ValueError(f"not yet in attempt {job.attempt}")' in job.error


@pytest.mark.parametrize(
    ("what", "is_raised"), [("snooze", True), ("snooze", False), ("throttled", True)]
)
async def test_snooze(
    what: str, is_raised: bool, shared_queue: WorkQueue, shared_db: Database
) -> None:
    """Snooze and Throttled run the job again after the delay, and cost no attempt."""
    job_id = await shared_queue.enqueue(Answers(what, is_raised), group=what)
    assert await shared_queue.wait(job_id, LIMIT) == {"attempt": 1}
    apart = shared_db.value("select max(at) - min(at) from run where job_id = %s", job_id)
    assert apart.total_seconds() >= 0.3


@pytest.mark.parametrize("is_raised", [True, False], ids=["raised", "returned"])
@pytest.mark.parametrize(
    ("what", "state", "error"),
    [
        ("discard", "cancelled", "nothing left to do"),
        ("fail", "failed", "no use to try again"),
    ],
)
async def test_discard_and_fail(
    what: str, state: str, error: str, is_raised: bool, shared_queue: WorkQueue
) -> None:
    """Discard ends a job as cancelled and Fail as failed, with the reason, at once."""
    job_id = await shared_queue.enqueue(Answers(what, is_raised))
    with pytest.raises(JobFailed, match=error):
        await shared_queue.wait(job_id, LIMIT)
    job = await shared_queue.job(job_id)
    assert (job.state, job.attempt, job.error) == (state, 1, error)


async def test_a_timeout(shared_queue: WorkQueue, shared_db: Database) -> None:
    """An attempt past its timeout is cut short and tried again, until attempts run out."""
    job_id = await shared_queue.enqueue(Overruns())
    with pytest.raises(JobFailed, match="Timeout"):
        await shared_queue.wait(job_id, LIMIT)
    assert (await shared_queue.job(job_id)).attempt == 2
    assert shared_db.runs("cut short")[job_id] == 2


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
async def test_texts_arrive_unchanged(text: str, shared_queue: WorkQueue) -> None:
    """Quotes, %, HTML, emoji and control characters arrive and come back as they are."""
    assert await shared_queue.wait(await shared_queue.enqueue(Says(text)), LIMIT) == text


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("{}", "text"),
        ('{"text": 1}', "text"),
        ('{"text": "a", "other": 1}', "other"),
        ('{"text": null}', "text"),
    ],
)
async def test_a_payload_that_does_not_fit(
    payload: str, reason: str, shared_queue: WorkQueue, shared_db: Database
) -> None:
    """What another client enqueued and no node can read fails, naming the field."""
    job_id = shared_db.enqueue("tests.cluster.app.Says", payload)
    with pytest.raises(JobFailed, match="the payload does not fit"):
        await shared_queue.wait(job_id, LIMIT)
    job = await shared_queue.job(job_id)
    assert (job.state, job.attempt) == ("failed", 1)
    assert reason in (job.error or "")


async def test_a_payload_that_python_does_not_read(
    shared_node: Node, shared_queue: WorkQueue, shared_db: Database
) -> None:
    """JSON that PostgreSQL takes and Python refuses fails by itself; its neighbours are done."""
    workers = shared_node.workers
    payload = '{"number": ' + "[" * 3000 + "]" * 3000 + "}"
    fine = [json.dumps({"work_type": NOOP, "payload": {"number": n}}) for n in range(20)]
    text = ",".join([*fine, f'{{"work_type": "{NOOP}", "payload": {payload}}}'])
    *ids, bad = shared_db.value("select txqueue.enqueue_many(%s)", f"[{text}]")
    with pytest.raises(JobFailed, match="the payload does not fit"):
        await shared_queue.wait(bad, LIMIT)
    for job_id in ids:
        await shared_queue.wait(job_id, LIMIT)
        assert (await shared_queue.job(job_id)).deaths == 0
    assert shared_node.workers == workers


async def test_a_large_payload_and_a_large_result(shared_queue: WorkQueue) -> None:
    """Payloads near the limit and results of half a megabyte pass, several at a time."""
    text = "\N{SNOWMAN}%'\"" * 145_000
    ids = await shared_queue.enqueue_many([Measures(text, 500_000) for _ in range(8)])
    for job_id in ids:
        result = await shared_queue.wait(job_id, LIMIT)
        assert isinstance(result, dict)
        assert result["length"] == len(text)
        assert len(result["text"]) == 500_000


@pytest.mark.parametrize("what", ["object", "nan", "nul", "surrogate", "nested"])
async def test_a_result_that_cannot_be_kept(what: str, shared_queue: WorkQueue) -> None:
    """A job whose result does not fit JSON fails with that error; its worker continues."""
    job_id = await shared_queue.enqueue(ReturnsStrange(what))
    with pytest.raises(JobFailed, match=r"result is not JSON|cannot be stored"):
        await shared_queue.wait(job_id, LIMIT)
    assert (await shared_queue.job(job_id)).deaths == 0


@pytest.mark.parametrize("kind", [Exits, ExitsInAsyncio, ExitsInThread])
async def test_sys_exit(shared_node: Node, kind: type[WorkItem], shared_queue: WorkQueue) -> None:
    """A handler that calls sys.exit() has failed; neither it nor its worker is lost."""
    workers = shared_node.workers
    job_id = await shared_queue.enqueue(kind())
    with pytest.raises(JobFailed, match="SystemExit"):
        await shared_queue.wait(job_id, LIMIT)
    assert (await shared_queue.job(job_id)).deaths == 0
    assert shared_node.workers == workers


async def test_one_of_a_thousand_fails(shared_queue: WorkQueue, shared_db: Database) -> None:
    """In a full chunk one job fails and the others are done."""
    works: list[WorkItem] = [Noop(number) for number in range(1000)]
    works[500] = Answers("fail")
    ids = await shared_queue.enqueue_many(works)
    await eventually(
        lambda: (
            shared_db.value(
                "select count(*) from txqueue.job where job_id = any(%s)"
                " and state in ('done', 'failed')",
                ids,
            )
            == 1000
        ),
        LIMIT,
    )
    failed = shared_db.rows("select job_id from txqueue.job_failed where job_id = any(%s)", ids)
    assert [row["job_id"] for row in failed] == [ids[500]]


async def test_a_handler_may_print(shared_node: Node, shared_queue: WorkQueue) -> None:
    """What a handler prints, text or garbage, ends in the node's output and harms nothing."""
    workers = shared_node.workers
    for job_id in [await shared_queue.enqueue(Prints()) for _ in range(3)]:
        await shared_queue.wait(job_id, LIMIT)
    await eventually(lambda: "printed by a handler" in shared_node.log)
    assert shared_node.workers == workers
