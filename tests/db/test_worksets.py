"""The stored functions of worksets: each part is taken by one, counted once, and never lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg2
import pytest
from attrs import define

from tests.db.conftest import Cli
from tests.db.masters import Master
from txqueue import ExistingTable, WorkQueue, WorksetItem
from txqueue.errors import Refused
from txqueue.model.job import Token
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.enqueueing.worksets import Parts

JOB = {"work_type": "test.kind", "payload": {}}
SPEC = {"name": "letters", "work_type": "test.letter", "job": JOB, "size": 2, "batch": 10}
COLUMNS = [["number", "bigint"], ["note", "text"]]


def make(session: Master, **more: Any) -> None:
    """Make a workset."""
    spec = {**SPEC, "columns": COLUMNS, **more}
    session.value("drop table if exists txqueue.workset_letters; select 1")
    session.value("select txqueue.ensure_workset(%s)", json.dumps(spec))


def fill(session: Master, items: int) -> int:
    """Put items into it."""
    rows = [{"number": n, "note": None} for n in range(items)]
    filled: int = session.value("select txqueue.fill_workset('letters', %s)", json.dumps(rows))
    return filled


def start(session: Master) -> list[tuple[int, int]]:
    """Start it; returns the assignments and numbers of its jobs, taken by the session."""
    session.value("select txqueue.start_workset('letters')")
    return [(chunk.assignment, job_id) for chunk in session.claim() for job_id in chunk.ids]


def take(
    session: Master, job: tuple[int, int], performed: int | None = None, failures: object = None
) -> dict[str, Any]:
    """Call `next_part()`."""
    session.cursor.execute(
        "select to_jsonb(told) from txqueue.next_part(%s, %s, %s, 'letters', %s, %s) as told",
        (
            *(session.incarnation, *job, performed),
            None if failures is None else json.dumps(failures),
        ),
    )
    found: dict[str, Any] = session.cursor.fetchall()[0][0]
    return found


def status(session: Master) -> dict[str, Any]:
    """How far it is."""
    found: dict[str, Any] = session.value(
        "select to_jsonb(workset_status) from txqueue.workset_status where name = 'letters'"
    )
    return found


def test_parts_are_taken_by_one_and_counted_once(node: Master) -> None:
    """Two jobs share the set; a part that is counted twice counts once."""
    make(node)
    assert fill(node, 25) == 25
    first, second = start(node)
    taken = take(node, first)
    other = take(node, second)
    assert (taken["items"], other["items"]) == (10, 10)
    assert [each["number"] for each in json.loads(taken["content"])] == list(range(10))
    last = take(node, first, taken["part"])
    assert last["items"] == 5
    assert not take(node, first, taken["part"])["held"]
    assert take(node, first, last["part"])["part"] is None
    take(node, second, other["part"])
    counted = status(node)
    assert (counted["done"], counted["remaining"], counted["parts"]) == (25, 0, 0)
    assert node.value("select count(*) from txqueue.workset_letters") == 0


def test_a_part_is_whole_or_not_there(node: Master, other: Master) -> None:
    """Items become visible at the commit; no session waits, and none is missed."""
    make(node)
    fill(node, 10)
    (first,) = start(node)
    other.connection.autocommit = False
    fill(other, 30)
    fill(node, 10)
    one = take(node, first)
    two = take(node, first, one["part"])
    assert take(node, first, two["part"])["part"] is None
    other.connection.commit()
    three = take(node, first)
    assert [each["number"] for each in json.loads(three["content"])] == list(range(10))
    assert status(node)["remaining"] == 30
    other.connection.autocommit = True


def test_what_a_former_run_held_comes_first_and_says_so(node: Master) -> None:
    """A job that runs again takes its own part, under its new token; the old one counts nothing."""
    make(node)
    fill(node, 20)
    first, second = start(node)
    part = take(node, first)["part"]
    take(node, second)
    node.release(first[0], died=True)
    again = next((c.assignment, i) for c in node.claim() for i in c.ids if i == first[1])
    assert not take(node, first, part)["held"]
    found = take(node, again)
    assert (found["part"], found["taken"]) == (part, 2)


def test_a_part_of_a_job_that_has_ended_is_taken_by_another(node: Master) -> None:
    """Cancelling a job of a workset loses no items."""
    make(node)
    fill(node, 20)
    first, second = start(node)
    lost = take(node, first)["part"]
    node.value(
        "select settled from txqueue.settle(%s, %s)",
        node.incarnation,
        json.dumps([{"job_id": first[1], "assignment": first[0], "outcome": "cancelled"}]),
    )
    part = take(node, second)
    assert take(node, second, part["part"])["part"] == lost
    assert node.value("select txqueue.start_workset('letters')") == 0


def test_failures_are_kept_or_tried_again(node: Master) -> None:
    """Item by item: the others of their part are done."""
    make(node)
    fill(node, 10)
    first, _ = [*start(node), None]
    part = take(node, first)
    failures = [{"key": "3", "error": "bad"}, {"key": "5", "error": "later", "delay": 0}]
    again = take(node, first, part["part"], failures)
    assert (again["keys"], again["attempt"], again["items"]) == (["5"], 1, 1)
    assert [each["number"] for each in json.loads(again["content"])] == [4]
    assert take(node, first, again["part"])["part"] is None
    counted = status(node)
    assert (counted["done"], counted["failed"], counted["remaining"]) == (9, 1, 0)
    assert node.column("select number from txqueue.workset_letters") == [2]
    assert node.value("select txqueue.retry_workset('letters')") == 1
    found = take(node, first)
    assert (found["keys"], found["attempt"]) == (["3"], 0)
    take(node, first, found["part"])
    counted = status(node)
    assert (counted["done"], counted["failed"], counted["remaining"]) == (10, 0, 0)


def test_failed_items_are_listed_by_what_identifies_them(node: Master, dsn: str, cli: Cli) -> None:
    """Their part and their number in it: several parts have an item of each number."""
    make(node)
    fill(node, 5)
    fill(node, 5)
    (job, *_) = start(node)
    error = [{"key": "3", "error": "bad"}]
    first = take(node, job)
    second = take(node, job, first["part"], error)
    take(node, job, second["part"], error)
    parts = node.column("select origin from txqueue.workset_failed order by origin")
    assert len(set(parts)) == 2
    lines = [line.split() for line in cli("--dsn", dsn, "worksets", "letters").out.splitlines()]
    assert ["part", "item", "runs", "error"] in lines
    assert sorted(line for line in lines if line[-1:] == ["bad"]) == [
        [str(part), "3", "1", "bad"] for part in parts
    ]


def test_a_job_does_not_end_while_its_workset_is_filled(node: Master, other: Master) -> None:
    """Otherwise the items of the filling session would have no job."""
    make(node)
    fill(node, 10)
    (first,) = start(node)
    part = take(node, first)
    take(node, first, part["part"])
    other.connection.autocommit = False
    fill(other, 10)
    end = "select txqueue.end_slot(%s, %s, %s, 'letters', false)"
    assert not node.value(end, node.incarnation, *first)
    other.connection.commit()
    assert not node.value(end, node.incarnation, *first)
    part = take(node, first)
    take(node, first, part["part"])
    assert node.value(end, node.incarnation, *first)
    assert (status(node)["done"], status(node)["jobs"]) == (20, 0)
    assert node.job(first[1])["state"] == "done"
    fill(node, 10)
    assert status(node)["jobs"] == 1


def test_a_bound_refuses(node: Master) -> None:
    """Once so many remain; as a whole, and for as long as they do."""
    make(node, bound=25)
    fill(node, 20)
    with pytest.raises(psycopg2.Error, match="the workset letters is full") as refused:
        fill(node, 6)
    assert refused.value.pgcode == "TXQ02"
    assert fill(node, 5) == 5


def test_a_name_belongs_to_one_work_type(node: Master) -> None:
    """Two classes do not share a set by accident."""
    make(node)
    with pytest.raises(psycopg2.Error, match="belongs to the work type"):
        node.value("select txqueue.ensure_workset(%s)", json.dumps({**SPEC, "work_type": "other"}))


def test_a_field_has_no_type_of_its_own_making(node: Master) -> None:
    """What the columns are is decided here; a name is a name, whatever is in it."""
    make(
        node,
        columns=[['x" int); drop table txqueue.workset; --', "bigint"], ["y", "text; select 1"]],
    )
    assert node.column(
        "select attname::text from pg_attribute where attrelid ="
        " 'txqueue.workset_letters'::regclass and attnum > 2"
    ) == ['x" int); drop table txqueue.workset; --']


def test_a_snapshot_elsewhere_and_many_parts(node: Master) -> None:
    """The jobs of a workset are never more than its size, whatever is filled."""
    make(node)
    for _ in range(5):
        fill(node, 100)
        node.value("select txqueue.start_workset('letters')")
    assert node.states() == {"ready": 2}


def test_what_was_taken_is_not_read_again(node: Master, other: Master) -> None:
    """While a snapshot somewhere keeps the dead entries of the indices, each part costs as much."""
    make(node, size=1, batch=1)
    fill(node, 120)
    (job,) = start(node)
    other.connection.set_session(isolation_level="REPEATABLE READ", autocommit=False)
    other.value("select count(*) from txqueue.workset_part")
    part = take(node, job)["part"]
    for _ in range(100):
        part = take(node, job, part)["part"]
    node.connection.autocommit = False
    reading = (
        "select sum(pg_stat_get_xact_tuples_returned(indexrelid))::int from pg_index"
        " where indrelid = 'txqueue.workset_part'::regclass"
    )
    before = node.value(reading)
    assert take(node, job, part)["items"] == 1
    assert node.value(reading) - before < 20


def test_a_part_that_comes_back_is_taken_in_the_end(node: Master) -> None:
    """One before the part that a job has is found when nothing is left behind that."""
    make(node, size=1, batch=1)
    fill(node, 4)
    (job,) = start(node)
    first = take(node, job)["part"]
    second = take(node, job, first)["part"]
    node.cursor.execute(
        "update txqueue.workset_part set job_id = -1 where part_id ="
        " (select min(part_id) from txqueue.workset_part where job_id is null) returning part_id"
    )
    ((lost,),) = node.cursor.fetchall()
    last = take(node, job, second)["part"]
    assert last > lost
    assert take(node, job, last)["part"] == lost
    assert take(node, job, lost)["part"] is None


@pytest.mark.parametrize("name", ["part", "slot", "failed", "status", "slot_pkey"])
def test_a_workset_takes_no_name_that_is_taken(node: Master, name: str) -> None:
    """Its table would be one of txqueue's own."""
    with pytest.raises(psycopg2.Error, match="is taken"):
        make(node, name=name)
    assert node.value("select count(*) from txqueue.workset") == 0


@define
class Twice(WorksetItem):
    """Rows of a table by a key that several may have."""

    work_type = "worksets.twice"
    source = ExistingTable("doubled", key="day")


@pytest.mark.parametrize(
    ("index", "is_refused"),
    [
        ("create index on doubled (day)", True),
        ("create unique index on doubled (day) where day > 5", True),
        ("create unique index on doubled (day, id)", True),
        ("create unique index on doubled (day)", False),
    ],
)
async def test_a_key_that_is_not_unique_is_refused(
    node: Master, queue: WorkQueue, index: str, *, is_refused: bool
) -> None:
    """Parts are cut by it: rows between two of the same key would be left out without a word."""
    node.cursor.execute("drop table if exists doubled; create table doubled (id int, day int)")
    node.cursor.execute(index)
    if is_refused:
        with pytest.raises(Refused, match="day of doubled has no unique index"):
            await queue.start_workset(Twice)
    else:
        assert await queue.start_workset(Twice) > 0


ROWS = [
    ("insert into doubled values (1, 1), (2, null)", "1 of the rows of doubled have no day"),
    ("insert into doubled values (1, 1), (2, 2)", None),
]


@pytest.mark.parametrize(("rows", "refusal"), ROWS)
async def test_rows_without_a_key_are_refused(
    node: Master, queue: WorkQueue, rows: str, refusal: str | None
) -> None:
    """They would count as done, though no part has them; nothing has been written by then."""
    node.cursor.execute("drop table if exists doubled; create table doubled (id int, day int)")
    node.cursor.execute("create unique index on doubled (day)")
    node.cursor.execute(rows)
    await refused_with(queue, Twice, refusal)
    assert node.value("select count(*) from txqueue.workset") == (0 if refusal else 1)


VIEWED = [
    ("select 1 as id, 1 as day union all select 2, 1", "day of seen is not unique"),
    ("select 1 as id, 1 as day union all select 2, null", "1 of the rows of seen have no day"),
    ("select 1 as id, 1 as day union all select 2, 2", None),
]


@define
class Seen(WorksetItem):
    """Rows of a view."""

    work_type = "worksets.seen"
    source = ExistingTable("seen", key="day")


@pytest.mark.parametrize(("rows", "refusal"), VIEWED)
async def test_a_view_whose_key_is_not_unique_is_refused(
    node: Master, queue: WorkQueue, rows: str, refusal: str | None
) -> None:
    """Its rows are counted: it has no index that would say so."""
    node.cursor.execute(f"drop view if exists seen; create view seen as {rows}")
    await refused_with(queue, Seen, refusal)


async def refused_with(queue: WorkQueue, cls: type[WorksetItem], refusal: str | None) -> None:
    """Start a workset, which is refused so, or not."""
    if refusal is None:
        assert await queue.start_workset(cls) > 0
        return
    with pytest.raises(Refused, match=refusal):
        await queue.start_workset(cls)


@pytest.mark.parametrize("place", [100, 64 * 500])
async def test_rows_that_later_share_a_key_are_found_when_parts_are_cut(
    pool: ConnectionPool, node: Master, queue: WorkQueue, place: int
) -> None:
    """Also where one reading of the rows ends; rows that lose their key are left out."""
    node.cursor.execute("drop view if exists seen; drop table if exists day")
    node.cursor.execute("create table day as select n as day from generate_series(1, 40000) as n")
    node.cursor.execute("create view seen as select day from day")
    await queue.start_workset(Seen)
    node.cursor.execute("update day set day = null where day = 7")
    parts = Parts(pool, "txqueue", Seen, Token(0, 0), 0)
    node.cursor.execute("insert into day values (%s)", (place + 1,))
    with pytest.raises(Refused, match="day of seen is not unique"):
        await parts.cut()
    node.cursor.execute(
        "delete from day where ctid = (select max(ctid) from day where day = %s)", (place + 1,)
    )
    assert [await parts.cut() for _ in range(3)] == [True, True, False]
    assert node.value("select sum(items) from txqueue.workset_part") == 39_999


async def test_a_missing_table_of_the_application_is_named(
    pool: ConnectionPool, node: Master, queue: WorkQueue
) -> None:
    """Not taken for an old schema, which `txqueue migrate` would repair."""
    node.cursor.execute("drop view if exists seen; drop table if exists day")
    with pytest.raises(Refused, match="there is no table or view seen with a column day"):
        await queue.start_workset(Seen)
    node.cursor.execute("create view seen as select 1 as day")
    await queue.start_workset(Seen)
    node.cursor.execute("drop view seen")
    with pytest.raises(Refused, match=r"the rows of seen cannot be read: .*does not exist"):
        await Parts(pool, "txqueue", Seen, Token(0, 0), 0).cut()


def test_a_missing_table_of_a_workset_is_named(node: Master) -> None:
    """Whether items are put into it or taken from it."""
    make(node)
    fill(node, 5)
    [first] = start(node)
    node.cursor.execute("drop table txqueue.workset_letters")
    for call in (lambda: take(node, first), lambda: fill(node, 5)):
        with pytest.raises(psycopg2.Error, match=r"workset_letters of the workset .* is missing"):
            call()


@contextmanager
def logged_in(node: Master, *roles: str) -> Iterator[str]:
    """Act as a login of its own, a member of some roles."""
    login = f"login_{uuid4().hex[:12]}"
    node.cursor.execute(f"create role {login} login in role {', '.join(roles)}")
    node.cursor.execute(f"set session authorization {login}")
    try:
        yield login
    finally:
        node.cursor.execute("reset session authorization")
        node.cursor.execute(f"drop role {login}")


def test_another_application_does_not_change_a_workset(node: Master) -> None:
    """The first login that is no node's owns it; nodes may change it, too."""
    make(node)
    larger, largest = (json.dumps({**SPEC, "size": size}) for size in (3, 4))
    ensure = "select txqueue.ensure_workset(%s)"
    with logged_in(node, "txqueue_worksets") as owner:
        number = node.value(ensure, json.dumps(SPEC))
        assert node.value(ensure, larger) == number
    with logged_in(node, "txqueue_worksets"):
        assert node.value(ensure, larger) == number
        with pytest.raises(psycopg2.Error, match=f"belongs to the login {owner}"):
            node.value(ensure, largest)
    assert node.value("select size from txqueue.workset") == 3
    with logged_in(node, "txqueue_worksets", "txqueue_worker"):
        assert node.value(ensure, largest) == number
    assert node.value("select size || owner from txqueue.workset") == f"4{owner}"
