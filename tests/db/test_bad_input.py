"""What cannot be enqueued: refused with a remedy, and nothing of its transaction is written."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import psycopg2
import pytest
from attrs import define

from tests.db.letters import Note, opened
from tests.db.masters import Master
from txqueue import Every, WorkItem, WorkQueue, enqueue
from txqueue.errors import InvalidWork, Refused


@pytest.mark.parametrize("place", [0, 999, 1000, 1999, 2500])
async def test_one_wrong_among_many_leaves_nothing(node: Master, dsn: str, place: int) -> None:
    """Whichever of the thousands it is in; the connection is fit for the next."""
    works = [Note() for _ in range(2600)]
    works[place].text = 7  # type: ignore[assignment]  # what the test is about
    async with opened(dsn, connections=1) as queue:
        with pytest.raises(InvalidWork, match=r"expected str @ \$\.text"):
            await queue.enqueue_many(works)
        assert {} == node.states()
        await queue.enqueue(Note())
        assert 1 == node.value(
            "select count(*) from pg_stat_activity where application_name = 'txqueue client'"
        )


async def test_a_wrong_option_is_refused(node: Master, queue: WorkQueue) -> None:
    """Nothing was sent, so the rest is written."""
    async with queue.transaction() as txn:
        await txn.enqueue(Note("right"))
        with pytest.raises(InvalidWork, match="priority 10 is not valid"):
            await txn.enqueue(Note("wrong"), priority=10)
    assert {"waiting": 1} == node.states()


async def test_a_moment_in_the_past_is_refused_by_the_database(
    node: Master, queue: WorkQueue
) -> None:
    """Its clock decides; nothing of the transaction is written."""
    with pytest.raises(Refused, match="is not later than") as caught:
        await queue.enqueue(Note(), not_after=datetime(2000, 1, 1, tzinfo=UTC))
    assert "after not_before" in caught.value.remedy
    assert {} == node.states()


@pytest.mark.parametrize("after", [(), []], ids=str)
async def test_a_job_after_no_other_starts_at_once(
    node: Master, queue: WorkQueue, after: Any
) -> None:
    """Tuples are lists of numbers, too; the driver would send them as rows."""
    first = await queue.enqueue(Note(), after=after)
    await queue.enqueue(Note(), after=(first,))
    await queue.enqueue_many([Note()], after=(first,))
    assert node.column("select parent from txqueue.job_parent") == [first, first]


@define
class Idle(WorkItem):
    """No handler."""


@define
class Unresolved(Note):
    """A name that there is only while types are checked."""

    work_type = "bad_input.unresolved"
    other: "Missing | None" = None  # type: ignore[name-defined]  # noqa: F821


def _function() -> None:
    pass


Wrong = tuple[Any, dict[str, Any], str]
WRONG: dict[str, Wrong] = {
    "no handler": (Idle(), {}, "Idle has no perform"),
    "annotation": (Unresolved(), {}, "annotations of Unresolved cannot be used: name 'Missing'"),
    "function": (_function, {}, "function is not a work item"),
    "class": (Note, {}, "type is not a work item"),
    "priority": (Note(), {"priority": 100}, "priority 100 is not valid"),
    "NUL": (Note("s3cret\0"), {}, r"NUL .* @ \$\.text"),
    "half": (Note("s3cret\ud800"), {}, r"NUL .* @ \$\.text"),
    "type": (Note(7), {}, r"expected str @ \$\.text"),  # type: ignore[arg-type]
}


async def _batched(queue: WorkQueue, work: Any, options: Any) -> None:
    async with queue.batch(Note()) as batch:
        await batch.enqueue(work, **options)


async def _called_back(queue: WorkQueue, work: Any, options: Any) -> None:
    async with queue.batch(work, **options):
        pass


async def _with_cursor(queue: WorkQueue, work: Any, options: Any) -> None:
    async with queue.transaction() as txn:
        await enqueue(txn, work, **options)


async def _in_transaction(queue: WorkQueue, work: Any, options: Any) -> None:
    async with queue.transaction() as txn:
        await txn.enqueue(work, **options)


WAYS: dict[str, Callable[[WorkQueue, Any, Any], Awaitable[Any]]] = {
    "queue.enqueue": lambda queue, work, options: queue.enqueue(work, **options),
    "queue.enqueue_many": lambda queue, work, options: queue.enqueue_many([work], **options),
    "txn.enqueue": _in_transaction,
    "enqueue(cursor)": _with_cursor,
    "batch": _batched,
    "callback": _called_back,
    "schedule": lambda queue, work, options: queue.schedule("a", work, Every(60), **options),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_each_way_of_enqueueing_refuses_before_it_writes(
    node: Master, queue: WorkQueue, way: Any, wrong: Wrong
) -> None:
    """Without a value that may be secret."""
    work, options, what = wrong
    with pytest.raises(InvalidWork, match=what) as caught:
        await way(queue, work, options)
    assert "s3cret" not in str(caught.value)
    assert {} == node.states()


def test_the_payload_limit_is_a_setting(node: Master) -> None:
    """Up to it, and not a byte more, one at a time and in bulk."""
    fits, exceeds = {"a": "x" * 300}, {"a": "x" * 301}
    size = len(json.dumps(fits))
    node.cursor.execute("update txqueue.setting set payload_limit = %s", (size,))
    node.enqueue({"payload": fits})
    node.value("select txqueue.enqueue('any.type', %s)", json.dumps(fits))
    refused = pytest.raises(
        psycopg2.Error, match=f"has {size + 1} bytes, more than the limit of {size}"
    )
    with refused:
        node.enqueue({"payload": exceeds})
    with refused:
        node.value("select txqueue.enqueue('any.type', %s)", json.dumps(exceeds))


@pytest.mark.parametrize(
    ("job", "what", "remedy"),
    [
        ({"not_befor": "2030-01-01T00:00Z"}, "has no not_befor", "not_before"),
        ({"retries": 5}, "has no retries", "use work_type, payload"),
        ({"options": {"retries": 5}}, "there is no option retries", "use attempts, timeout"),
        ({"options": {"atempts": 5}}, "there is no option atempts", "use attempts"),
        ({"options": {"queue": "a"}}, "there is no option queue", "as an argument of its own"),
        ({"options": {"tiemout": 5}, "unique": "a"}, "no option tiemout", "timeout"),
    ],
    ids=str,
)
def test_unknown_names_are_refused_in_sql(
    node: Master, job: dict[str, Any], what: str, remedy: str
) -> None:
    """In all functions that enqueue; the hint has those that there are."""
    whole = {"work_type": "any.type", "payload": {}, **job}
    with pytest.raises(psycopg2.Error) as refused:
        node.value("select txqueue.enqueue_many(%s)", json.dumps([whole]))
    assert what in str(refused.value)
    assert remedy in str(refused.value)
    if options := job.get("options"):
        with pytest.raises(psycopg2.Error, match=what):
            node.value("select txqueue.enqueue('a', '{}', options => %s)", json.dumps(options))
    assert {} == node.states()


@pytest.mark.parametrize("jobs", [[7], ["a"], [None], [[]], {"a": 1}], ids=str)
def test_jobs_that_are_no_objects_are_refused_in_sql(node: Master, jobs: Any) -> None:
    """With one error, whatever they are."""
    with pytest.raises(psycopg2.Error, match=r"not a JSON object|cannot extract elements"):
        node.value("select txqueue.enqueue_many(%s)", json.dumps(jobs))


@pytest.mark.parametrize(
    ("name", "remedy"), [("", "pass a name"), ("x" * 201, "pass a shorter name")]
)
def test_the_remedy_for_a_queue_name_fits(node: Master, name: str, remedy: str) -> None:
    """An empty one cannot be shorter."""
    with pytest.raises(psycopg2.Error) as refused:
        node.value("select txqueue.enqueue('any.type', '{}', %s)", name)
    assert refused.value.diag.message_hint == remedy


def test_an_empty_array_enqueues_nothing(node: Master) -> None:
    """It has no key that is not known."""
    assert node.value("select txqueue.enqueue_many('[]')") == []
