"""Every adapter does the same: one set of tests over each driver, blocking and not."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import psycopg2
import pytest
from attrs import define

from tests.db.conftest import empty_database
from tests.db.driver_faces import NAMES, Face, tried
from tests.db.kept_sessions import keeping, kept_session
from tests.db.letters import TRICKY, Note
from tests.fixtures.databases import Templates, fresh_database
from txqueue import Key, UniqueMode, WorkItem
from txqueue.errors import (
    ConfigurationError,
    Duplicate,
    InvalidWork,
    NotPermitted,
    QueueFull,
    Refused,
    SchemaMismatch,
)
from txqueue.model.enqueue_options import OPTIONS
from txqueue.store.enqueueing.calls import enqueue_call

T = TypeVar("T")
Try = Callable[[Callable[[Face], Coroutine[Any, Any, T]]], T]

MOMENT: Final = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
ROW: Final = """
    select (to_jsonb(job) - '{job_id,enqueued_at,rank,lane,not_before}'::text[])::text,
        nullif(not_before, enqueued_at)::text
      from txqueue.job where job_id > 1
"""
AFTER: Final = {"after": [1], "after_any_end": True}
LAST: Final = {"unique": "%s", "unique_mode": UniqueMode.REPLACE, "as_of": MOMENT}
ALL: Final[dict[str, Any]] = {
    "queue": "100% %s :queue $1",
    "priority": 9,
    "weight": 3,
    "not_before": MOMENT,
    "not_after": MOMENT + timedelta(days=1),
    "group": TRICKY.strip(),
    "tenant": "Zoë",
    "timeout": timedelta(minutes=1),
    "attempts": 7,
    "expires": True,
    "unique": "%(key)s",
    "unique_mode": UniqueMode.ONCE,
    "once_for": 60,
    "created_by": "shop %",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "a=b",
    "tags": {"campaign": "50% off"},
}


@define
class Parcel(WorkItem):
    """Work with declared keys."""

    work_type = "adapters.parcel"
    group = Key("customer:{customer}")

    customer: int

    def perform(self, job: Any) -> None:
        """Do nothing."""


@pytest.fixture(scope="module")
def database(dsn18: str, templates: Templates) -> Iterator[str]:
    """The DSN of a database with the schema, and a table of an application."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn, keeping(dsn):
        ask(dsn, "create table placed (item text)")
        yield dsn


@pytest.fixture
def dsn(database: str) -> str:
    """The same, without rows."""
    empty_database(database)
    ask(database, "truncate placed")
    return database


@pytest.fixture(params=NAMES)
def over(request: pytest.FixtureRequest, dsn: str) -> Try[Any]:
    """Runs a test over each driver in turn."""
    return lambda test: tried(request.param, dsn, test)


def ask(dsn: str, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Run a statement in another session, and commit it."""
    with kept_session(dsn) as session, session.cursor() as cursor:
        cursor.execute(sql, parameters or None)
        return cursor.fetchall() if cursor.description else []


def counts(dsn: str) -> tuple[int, int]:
    """Count the application's rows and the jobs, as another session sees them."""
    [row] = ask(dsn, "select (select count(*) from placed), (select count(*) from txqueue.job)")
    return row[0], row[1]


def reference(dsn: str, work: WorkItem, options: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the row that the queue itself would write."""
    with closing(psycopg2.connect(dsn)) as session, session.cursor() as cursor:
        cursor.execute(*enqueue_call("txqueue", work, options))
        cursor.execute(ROW)
        return cursor.fetchall()


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
@pytest.mark.parametrize(
    ("work", "options"),
    [
        (Note(TRICKY), {}),
        (Note("☃ %s"), ALL),
        (Note(), {**AFTER, "group": None}),
        (Note(), LAST),
        (Parcel(7), {"expires": False, "not_before": datetime(1990, 1, 1, tzinfo=UTC)}),
    ],
    ids=["none", "all", "after", "last", "declared"],
)
def test_each_option_arrives_as_the_queue_itself_writes_it(
    dsn: str, over: Try[Any], work: WorkItem, options: dict[str, Any], many: bool
) -> None:
    """The whole row is the same, whatever the driver makes of JSON, moments and percent signs."""
    assert {*ALL, *AFTER, *LAST} == set(OPTIONS)
    assert ask(dsn, "select txqueue.enqueue('enqueue.note', '{}')") == [(1,)]

    async def test(face: Face) -> Any:
        if many:
            await face.enqueue_many([work], **options)
        else:
            await face.enqueue(work, **options)
        return await face.execute(ROW)

    assert over(test) == reference(dsn, work, options)


def test_a_job_is_there_if_and_only_if_the_callers_rows_are(dsn: str, over: Try[Any]) -> None:
    """Neither before the commit, nor after a rollback; the adapter never commits."""

    async def test(face: Face) -> None:
        for commit in (False, True):
            await face.execute("insert into placed values ('tea')")
            await face.enqueue(Note(), group="tea")
            await face.enqueue_many([Note(), Note()])
            assert counts(dsn) == (0, 0)
            await face.end(commit=commit)
            assert counts(dsn) == ((1, 3) if commit else (0, 0))

    over(test)


def test_savepoints_of_the_caller_undo_jobs(dsn: str, over: Try[Any]) -> None:
    """As they undo rows."""

    async def test(face: Face) -> None:
        kept = await face.enqueue(Note())
        await face.execute("savepoint mine")
        await face.enqueue(Note())
        await face.execute("rollback to savepoint mine")
        await face.end(commit=True)
        assert ask(dsn, "select job_id from txqueue.job") == [(kept,)]

    over(test)


def test_a_key_that_another_job_holds_leaves_the_transaction_usable(
    dsn: str, over: Try[Any]
) -> None:
    """KEEP is no error."""

    async def test(face: Face) -> None:
        first = await face.enqueue(Note("a"), unique="k")
        assert await face.enqueue(Note("b"), unique="k", unique_mode=UniqueMode.KEEP) == first
        await face.execute("insert into placed values ('tea')")
        await face.end(commit=True)
        assert counts(dsn) == (1, 1)

    over(test)


REFUSALS: Final[dict[str, tuple[type[Exception], dict[str, Any]]]] = {
    "refused": (Refused, {"not_before": datetime(9999, 1, 1, tzinfo=UTC)}),
    "duplicate": (Duplicate, {"unique": "k", "unique_mode": UniqueMode.REJECT}),
    "full": (QueueFull, {"queue": "full"}),
    "schema": (SchemaMismatch, {"schema": "nowhere"}),
}


@pytest.fixture
def full_queue(dsn: str) -> Iterator[None]:
    """A queue that takes no more jobs."""
    ask(dsn, "insert into txqueue.control (kind, key, is_full) values ('queue', 'full', true)")
    ask(dsn, "select setval('txqueue.has_limits', 1)")
    yield
    ask(dsn, "delete from txqueue.control where key = 'full'")


@pytest.mark.usefixtures("full_queue")
@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_is_an_error_of_txqueue(dsn: str, over: Try[Any], case: str) -> None:
    """It has the driver's as its cause; the transaction ends, unless there is a savepoint."""
    expected, options = REFUSALS[case]

    async def test(face: Face) -> None:
        await face.enqueue(Note(), unique="k")
        await face.execute("insert into placed values ('tea')")
        with pytest.raises(expected) as caught:
            await face.enqueue(Note(), savepoint=True, **options)
        assert caught.value.__cause__ is not None
        assert not type(caught.value.__cause__).__module__.startswith("txqueue")
        await face.end(commit=True)
        assert counts(dsn) == (1, 1)
        with pytest.raises(expected):
            await face.enqueue(Note(), **options)
        with pytest.raises(Refused, match="an earlier statement of this transaction has failed"):
            await face.enqueue(Note())
        await face.end(commit=False)
        await face.enqueue(Note())

    over(test)


def test_a_role_without_the_right_is_told_so(dsn: str, over: Try[Any]) -> None:
    """As `NotPermitted`, with what to grant."""
    ask(dsn, "do $$ begin create role stranger; exception when duplicate_object then end $$")

    async def test(face: Face) -> None:
        await face.execute("set local role stranger")
        with pytest.raises(NotPermitted, match="grant its role what it lacks"):
            await face.enqueue(Note())

    over(test)


def test_invalid_work_sends_nothing(dsn: str, over: Try[Any]) -> None:
    """The transaction goes on, without a savepoint."""

    async def test(face: Face) -> None:
        await face.execute("insert into placed values ('tea')")
        for options in ({"group": "\0"}, {"priority": 11}, {"prority": 1}, {"group": "\ud800"}):
            with pytest.raises(InvalidWork):
                await face.enqueue(Note(), **options)
        with pytest.raises(InvalidWork, match="NUL"):
            await face.enqueue(Note("\0"))
        with pytest.raises(InvalidWork):
            await face.enqueue_many([*map(Note, "ab"), Note(5)])  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError):
            await face.enqueue(Note(), schema='x"; drop')
        await face.end(commit=True)
        assert counts(dsn) == (1, 0)

    over(test)


def test_ten_thousand_jobs_are_enqueued_in_order(dsn: str, over: Try[Any]) -> None:
    """With one call; an empty one does nothing."""

    async def test(face: Face) -> None:
        assert await face.enqueue_many([]) == []
        ids = await face.enqueue_many(Note(str(number)) for number in range(10_000))
        await face.end(commit=True)
        [[inorder]] = ask(
            dsn,
            "select array_agg(job_id order by (payload ->> 'text')::int) from txqueue.job",
        )
        assert ids == inorder
        assert len(ids) == 10_000

    over(test)


def test_of_many_either_all_are_enqueued_or_none(dsn: str, over: Try[Any]) -> None:
    """Also if what is wrong is found after the first thousand were sent."""

    async def test(face: Face) -> None:
        await face.execute("insert into placed values ('tea')")
        works: list[Any] = [*[Note()] * 2500, Note(5)]  # type: ignore[arg-type]
        with pytest.raises(InvalidWork):
            await face.enqueue_many(works)
        await face.end(commit=True)
        assert counts(dsn) == (1, 0)

    over(test)


def test_a_batch_ends_with_its_callback(dsn: str, over: Try[Any]) -> None:
    """It waits for all jobs of the block."""

    async def test(face: Face) -> Any:
        async with face.batch(Note("callback"), priority=9) as batch:
            one = batch.enqueue(Note("one"))
            await one if hasattr(one, "__await__") else None
            many = batch.enqueue_many([Note("two"), Note("three")])
            await many if hasattr(many, "__await__") else None
        await face.end(commit=True)
        return batch

    batch = over(test)
    [[waits_for, priority]] = ask(
        dsn,
        "select waiting_for, priority from txqueue.job where job_id = %s",
        batch.callback_id,
    )
    assert (len(batch.ids), waits_for, priority) == (3, "parents", 9)


def test_an_error_that_a_batch_swallows_is_raised_at_its_end(dsn: str, over: Try[Any]) -> None:
    """Its jobs would be lost in silence: PostgreSQL answers the commit with a rollback."""

    async def swallow(face: Face) -> None:
        async with face.batch(Note("callback")):
            with pytest.raises(SchemaMismatch):
                await face.enqueue(Note(), schema="nowhere")

    async def test(face: Face) -> None:
        with pytest.raises(Refused, match="an earlier statement of this transaction has failed"):
            await swallow(face)
        await face.end(commit=False)
        assert counts(dsn) == (0, 0)

    over(test)
