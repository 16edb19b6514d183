"""How jobs run and end in each runtime, on one shared node."""

from datetime import timedelta
from itertools import pairwise

import pytest

from tests.cluster.app import (
    FailsFirst,
    InAsyncio,
    InThread,
    Measures,
    Noop,
    Noted,
    ReturnsDeferred,
    Says,
)
from tests.cluster.database import Database
from txqueue import WorkItem, WorkQueue
from txqueue.errors import JobFailed

pytestmark = pytest.mark.usefixtures("shared_node")

LIMIT = 120.0
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


async def test_a_large_payload_and_a_large_result(shared_queue: WorkQueue) -> None:
    """Payloads near the limit and results of half a megabyte pass, several at a time."""
    text = "\N{SNOWMAN}%'\"" * 145_000
    ids = await shared_queue.enqueue_many([Measures(text, 500_000) for _ in range(8)])
    for job_id in ids:
        result = await shared_queue.wait(job_id, LIMIT)
        assert isinstance(result, dict)
        assert result["length"] == len(text)
        assert len(result["text"]) == 500_000
