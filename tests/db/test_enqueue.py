"""Enqueueing from Python and from SQL: with the application's rows or not at all."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import pytest
from attrs import define
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from txpostgres import txpostgres

import txqueue
from tests.db.letters import FAR, TRICKY, Letter, Note
from tests.db.masters import Master, emptied
from txqueue import Transaction, WorkItem, WorkQueue


def rows(node: Master) -> tuple[int, int]:
    """How many rows the application has, and how many jobs there are."""
    return node.value("select count(*) from app"), node.value("select count(*) from txqueue.job")


async def work(txn: Transaction, error: Exception | None = None) -> int:
    """Write as an application does: a row, and the job that it needs."""
    await txn.execute("insert into app values (%s)", (TRICKY,))
    job_id = await txn.enqueue(Note(TRICKY))
    if error is not None:
        raise error
    return job_id


async def plain(queue: WorkQueue, error: Exception | None) -> int:
    """Use a transaction."""
    async with queue.transaction() as txn:
        return await work(txn, error)


async def interaction(queue: WorkQueue, error: Exception | None) -> int:
    """Use an interaction of a coroutine function."""
    return int(await queue.run_interaction(work, error))


async def deferred(queue: WorkQueue, error: Exception | None) -> int:
    """Use an interaction of a function that returns a Deferred."""
    done = await queue.run_interaction(lambda txn: Deferred.fromCoroutine(work(txn, error)))
    return int(done)


Way = Callable[[WorkQueue, Exception | None], Any]
ways = pytest.mark.parametrize("way", [plain, interaction, deferred])


@ways
async def test_a_job_is_committed_with_the_application_s_rows(
    node: Master, queue: WorkQueue, way: Way
) -> None:
    """Both exist after the commit, and no session sees the job before."""
    node.cursor.execute("create table app (text text)")
    job = await queue.job(await way(queue, None))
    assert (1, 1) == rows(node)
    assert {"text": TRICKY} == job.payload
    assert [TRICKY] == node.column("select text from app")


@ways
async def test_a_job_is_rolled_back_with_the_application_s_rows(
    node: Master, queue: WorkQueue, way: Way
) -> None:
    """Neither is there."""
    node.cursor.execute("create table app (text text)")
    with pytest.raises(ValueError, match="mine"):
        await way(queue, ValueError("mine"))
    assert (0, 0) == rows(node)
    assert 1 <= await queue.enqueue(Note())


async def test_inside_an_existing_interaction(node: Master, dsn: str) -> None:
    """Code that has txpostgres and a cursor needs no connection of ours."""
    node.cursor.execute("create table app (text text)")
    connection = txpostgres.Connection()
    await connection.connect(dsn)

    async def write(cursor: Any, error: Exception | None) -> int:
        await cursor.execute("insert into app values ('a')")
        job_id = await txqueue.enqueue(cursor, Note(TRICKY), priority=9)
        if error:
            raise error
        return job_id

    def run(error: Exception | None) -> Any:
        return connection.runInteraction(
            lambda cursor: Deferred.fromCoroutine(write(cursor, error))
        )

    with pytest.raises(ValueError, match="mine"):
        await run(ValueError("mine"))
    assert (0, 0) == rows(node)
    job = node.job(await run(None))
    assert (1, 1) == rows(node)
    assert ({"text": TRICKY}, 9) == (job["payload"], job["priority"])
    connection.close()


async def test_python_and_sql_write_the_same(node: Master, queue: WorkQueue) -> None:
    """Any client may call the function; it is the same job."""
    node.publish("enqueue.letter", queue="mail", priority=7, weight=3)
    moments: dict[str, Any] = {"not_before": FAR, "not_after": FAR + timedelta(days=1)}
    first = await queue.enqueue(Letter(TRICKY), timeout=3.5, attempts=2, **moments)
    second = node.value(
        "select txqueue.enqueue('enqueue.letter', %s, \"group\" => %s, not_before => %s,"
        " not_after => %s, options => %s)",
        json.dumps({"to": TRICKY}),
        f"to:{TRICKY}",
        *moments.values(),
        '{"timeout": 3.5, "attempts": 2}',
    )
    one, two = node.job(first), node.job(second)
    differing = {name for name in one if one[name] != two[name]}
    assert differing <= {"job_id", "enqueued_at"}
    assert ("mail", 7, 3, f"to:{TRICKY}") == (
        *(one[name] for name in ("queue", "priority", "weight", "group")),
    )


async def test_options_go_before_policy(node: Master, queue: WorkQueue) -> None:
    """Even where they say what is usual."""
    node.publish("enqueue.letter", queue="mail", priority=7, weight=3)
    job_id = await queue.enqueue(Letter("x"), queue="default", priority=4, weight=1)
    job = node.job(job_id)
    assert ("default", 4, 1) == (job["queue"], job["priority"], job["weight"])


@pytest.mark.parametrize(
    ("defined", "expected"),
    [
        ({}, ("mail", 7, 3)),
        ({"priority": 4}, ("mail", 4, 3)),
        ({"queue": "default", "weight": 1}, ("default", 7, 1)),
        ({"priority": 5}, ("mail", 5, 3)),
    ],
    ids=str,
)
async def test_what_a_class_defines_goes_before_the_published_policy(
    node: Master, queue: WorkQueue, defined: dict[str, object], expected: tuple[str, int, int]
) -> None:
    """Even where it says what is usual: one at a time, in bulk, and in a transaction."""
    node.publish("enqueue.explicit", queue="mail", priority=7, weight=3)
    work = define(
        type(
            "Explicit",
            (WorkItem,),
            {"work_type": "enqueue.explicit", "perform": lambda *_: None, **defined},
        )
    )
    ids = [await queue.enqueue(work()), *await queue.enqueue_many([work()])]
    async with queue.transaction() as txn:
        ids.append(await txn.enqueue(work()))
    jobs = [node.job(job_id) for job_id in ids]
    assert [expected] * 3 == [(job["queue"], job["priority"], job["weight"]) for job in jobs]


def test_null_means_the_published_policy(node: Master) -> None:
    """For SQL clients, who do not know it; what is said goes before it."""
    node.publish("enqueue.letter", queue="mail", priority=7, weight=3)
    silent = node.value("select txqueue.enqueue('enqueue.letter', '{}')")
    outspoken = node.value("select txqueue.enqueue('enqueue.letter', '{}', 'slow', 0, 9)")
    assert [("mail", 7, 3), ("slow", 0, 9)] == [
        (job["queue"], job["priority"], job["weight"]) for job in map(node.job, [silent, outspoken])
    ]


def test_a_job_of_an_unpublished_type_waits(node: Master) -> None:
    """With the usual policy, until a node that knows the type has come."""
    job_id = node.value("select txqueue.enqueue('enqueue.unknown', '{}')")
    later = node.value("select txqueue.enqueue('enqueue.unknown', '{}', not_before => %s)", FAR)
    assert [job_id, later] == node.waiting("type")
    assert [] == node.take(work_types=["enqueue.unknown"]).ids
    assert 2 == node.publish("enqueue.unknown")
    assert [later] == node.waiting("time")
    assert [job_id] == node.take(work_types=["enqueue.unknown"]).ids


def test_many_jobs_of_a_type_become_ready_in_parts(node: Master) -> None:
    """So that the start of a node does not last; a heartbeat asks for the next one at once."""
    job = {"work_type": "enqueue.unknown", "payload": {}}
    node.value("select txqueue.enqueue_many(%s)", json.dumps([job] * 10_001))
    assert node.publish("enqueue.unknown") == 10_000
    assert node.value("select next_end from txqueue.heartbeat(%s, 0)", node.incarnation) is None
    assert node.waiting("type") == []


def test_payloads_of_one_type_are_enqueued_together(node: Master) -> None:
    """In their order, with the arguments that they share; those of null are their defaults."""
    many = "select txqueue.enqueue_many('enqueue.same', %s::jsonb[], %s)"
    payloads = [json.dumps({"n": number}) for number in range(3)]
    ids = node.value(many, payloads, json.dumps({"queue": "mail", "work_type": "other"}))
    assert [node.job(job_id)["payload"] for job_id in ids] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert {(node.job(each)["work_type"], node.job(each)["queue"]) for each in ids} == {
        ("enqueue.same", "mail")
    }
    assert [len(node.value(many, given, None)) for given in ([], payloads[:1])] == [0, 1]
    with pytest.raises(psycopg2.Error, match="payload"):
        node.value(many, [*payloads, None], None)
    assert node.states() == {"waiting": 4}


def test_nodes_that_start_together_do_not_wait_for_each_other(node: Master, other: Master) -> None:
    """They publish the same types with the same policies."""
    node.publish("enqueue.same", priority=3)
    node.connection.autocommit = False
    node.publish("enqueue.same", priority=3)
    other.cursor.execute("set lock_timeout = '1s'")
    assert other.publish("enqueue.same", priority=3) == 0
    node.publish("enqueue.same", priority=4)
    node.connection.commit()
    priority = "select priority from txqueue.work_type where work_type = 'enqueue.same'"
    assert other.value(priority) == 4


def test_the_policy_of_the_node_that_started_last_counts(node: Master, other: Master) -> None:
    """A node that registers again does not undo it, but tells what the database has lost."""
    again = """select txqueue.register_node('node', 'host', 1, null, 10, 100, '{{default}}', %s, '',
        null, {})"""
    kind = {"queue": "default", "priority": 1, "weight": 1}
    kinds = json.dumps([{"work_type": f"{each}.kind", **kind} for each in ("test", "lost")])
    read = "select priority from txqueue.work_type where work_type = 'test.kind'"
    start = node.value("select clock_timestamp()")
    other.publish("test.kind", priority=7)
    # Code from before `its_start` does not name it.
    for how in ("its_start => %s", "former_died => %s"):
        node.cursor.execute("delete from txqueue.work_type where work_type = 'lost.kind'")
        node.value(again.format(how), kinds, start if "start" in how else False)
        assert node.value(read) == 7
        assert node.value(read.replace("test", "lost")) == 1
    node.cursor.execute("update txqueue.work_type set published_at = published_at - interval '1h'")
    node.value(again.format("its_start => %s"), kinds, start)
    assert node.value(read) == 1
    other.publish("test.kind", priority=7)
    node.value(again.format("former_died => %s"), kinds, True)
    assert node.value(read) == 1


def test_a_type_published_while_an_enqueue_is_open_is_seen_to(node: Master, other: Master) -> None:
    """The enqueue did not see it, and the publishing did not see the job: a heartbeat sees both."""
    other.connection.autocommit = False
    job_id = other.value("select txqueue.enqueue('enqueue.unknown', '{}')")
    assert 0 == node.publish("enqueue.unknown")
    other.connection.commit()
    assert [job_id] == node.waiting("type")
    node.value("select txqueue.heartbeat(%s, 0)", node.incarnation)
    assert [job_id] == node.take(work_types=["enqueue.unknown"]).ids


@pytest.mark.parametrize("known", [0, 700])
async def test_numbers_come_in_the_order_given(node: Master, queue: WorkQueue, known: int) -> None:
    """However the planner joins them with the work types, and over several round trips."""
    types = [
        {"work_type": f"t{number:03}", "queue": "default", "priority": 4, "weight": 1}
        for number in range(known)
    ]
    node.value("select txqueue.publish(%s)", json.dumps(types))
    node.cursor.execute("analyze txqueue.work_type")
    mixed = [{"work_type": f"t{-n * 7 % 700:03}", "payload": {"n": n}} for n in range(300)]
    ids = node.enqueue(*mixed)
    order = node.column(
        "select (payload ->> 'n')::int"
        " from unnest(%s::bigint[]) with ordinality as given (id, place)"
        " join txqueue.job on job_id = id order by place",
        ids,
    )
    assert list(range(300)) == order
    many = await queue.enqueue_many(Note(str(number)) for number in range(2100))
    assert sorted(many) == many
    assert [{"text": "0"}, {"text": "2099"}] == [node.job(many[n])["payload"] for n in (0, -1)]


spans = st.integers(-1000, 1000).map(lambda minutes: timedelta(minutes=minutes))
lives = st.none() | st.integers(1, 2000).map(lambda minutes: timedelta(minutes=minutes))


async def test_nothing_enqueued_is_no_error(queue: WorkQueue) -> None:
    """No works, no numbers."""
    async with queue.transaction() as txn:
        assert await txn.enqueue_many([]) == []


@given(
    st.lists(st.tuples(st.integers(0, 9), spans, lives), min_size=1, max_size=5),
    st.integers(1, 120),
)
def test_rank_is_when_it_is_due_less_its_priority(
    node: Master, jobs: list[tuple[int, timedelta, timedelta | None]], aging: int
) -> None:
    """Or, if that is sooner, when a top job that became due at not_after would stand."""
    emptied(node)
    step = timedelta(minutes=aging)
    node.cursor.execute("update txqueue.setting set aging = %s", (step,))
    now = datetime.now(UTC) + timedelta(days=1)
    given_, expected = [], []
    for priority, span, life in jobs:
        due = now + span
        job = {"priority": priority, "not_before": due.isoformat()}
        rank = due - priority * step
        if life is not None:
            job["not_after"] = (due + life).isoformat()
            rank = min(rank, due + life - 9 * step)
        given_.append(job)
        expected.append(rank)
    ids = node.enqueue(*given_)
    assert expected == [node.job(job_id)["rank"] for job_id in ids]


def test_for_ever_is_a_time_to_wait_for(node: Master) -> None:
    """A job that is never due keeps no other from running."""
    node.enqueue({"not_before": "infinity"})
    assert (None, []) == (node.take().due_in, node.take().ids)
    node.enqueue({}, {"not_before": FAR.isoformat()})
    claimed = node.take()
    assert 1 == len(claimed.ids)
    assert claimed.due_in is not None
    assert 1e9 < claimed.due_in < 1e11


async def test_a_result_is_waited_for(node: Master, queue: WorkQueue) -> None:
    """The handler's result reaches all waiting callers, in any process."""
    node.publish("enqueue.note")
    job_id = await queue.enqueue(Note())
    waiting = Deferred.fromCoroutine(queue.wait(job_id, timeout=30))
    (chunk,) = node.take(work_types=["enqueue.note"]).chunks
    node.settle(chunk, "done", result={"a": [TRICKY]})
    assert {"a": [TRICKY]} == await waiting


@pytest.mark.parametrize("payload", ['{"a": "\u00e4"}', "{}"])
def test_a_plain_job_is_the_same_as_one_with_all_that_its_type_says(
    node: Master, payload: str
) -> None:
    """The short way of jobs with nothing but a payload writes the same row, of its own number."""
    node.publish("plain:Post", queue="post", priority=7, weight=3)
    node.connection.autocommit = False
    plain = node.value("select txqueue.enqueue('plain:Post', %s)", payload)
    whole = node.value(
        "select txqueue.enqueue('plain:Post', %s, 'post', 7, 3, now(), null)", payload
    )
    row = "select to_jsonb(job) - 'job_id' from txqueue.job where job_id = %s"
    assert node.value(row, plain) == node.value(row, whole)
    assert plain < whole
    node.connection.rollback()
    node.connection.autocommit = True
