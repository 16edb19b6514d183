"""Conditions of schedules: rows of an application, looked at with the rights of the node itself."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime

import psycopg2
import pytest
from attrs import asdict

from tests.db.masters import Master
from tests.db.recurring import DAY, due, passes, put, schedule, tick
from txqueue import Exists
from txqueue.errors import Refused
from txqueue.model.schedule import Cooldown, Every, Schedule
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.schedules import Schedules


@pytest.fixture
def projects(node: Master) -> Iterator[None]:
    """Three projects, and a view of those that are active."""
    node.cursor.execute(
        "create table public.app (id int, is_active boolean);"
        "insert into public.app values (1, true), (2, false), (3, true);"
        "create view public.active as select id from public.app where is_active"
    )
    yield
    node.cursor.execute("drop table public.app cascade")


@pytest.mark.usefixtures("projects")
def test_an_inactive_project_is_left_out_by_the_query(node: Master) -> None:
    """Its moments pass without a job, until it is active again."""
    for number in (1, 2, 3):
        condition = {"table": "public.active", "column": "id", "value": str(number)}
        put(node, f"project {number}", condition=condition)
    tick(node, due(node))
    for active, expected in ((2, ["project 1", "project 3"]), (1, ["project 2", "project 3"])):
        node.cursor.execute("update public.app set is_active = id <> %s", (active,))
        passes(node, DAY)
        assert tick(node, due(node)) == 2
        claimed = [node.job(job_id)["options"]["schedule"] for job_id in node.claimed_ids()]
        assert sorted(claimed) == expected
        assert due(node) == []


AFTER_AN_OUTAGE = {
    "deactivated": "update public.app set is_active = false",
    "paused": "select txqueue.pause_schedule(name, 'me') from txqueue.schedule",
    "removed": "select txqueue.remove_schedule(name, 'me') from txqueue.schedule",
}


@pytest.mark.usefixtures("projects")
@pytest.mark.parametrize("when", [Cooldown(60), Every(60)], ids=lambda when: type(when).__name__)
@pytest.mark.parametrize("what", AFTER_AN_OUTAGE)
def test_what_is_put_off_after_an_outage_is_asked_again(
    node: Master, when: Schedule, what: str
) -> None:
    """A project that is deactivated meanwhile, or a schedule that is paused or removed."""
    condition = {"table": "public.active", "column": "id", "value": "1"}
    for number in range(20):
        put(node, f"sync {number}", when, condition)
    tick(node, due(node))
    passes(node, 85)
    assert tick(node, due(node), is_outage=True) == 1
    assert due(node) == []
    node.cursor.execute(AFTER_AN_OUTAGE[what])
    passes(node, 60)
    assert tick(node, due(node)) == 0
    assert node.states() == {"ready": 1}


@pytest.mark.parametrize("when", [Cooldown(60), Every(60, catch_up="one")], ids=str)
def test_what_is_put_off_after_an_outage_keeps_its_moment(node: Master, when: Schedule) -> None:
    """It starts once, a little later, for the moment at which it was due."""
    put(node, "first", when)
    put(node, "second", when)
    tick(node, due(node))
    passes(node, 85)
    moments = {row["name"]: row["due"] for row in due(node)}
    assert tick(node, due(node), is_outage=True) == 1
    passes(node, 10)
    (late,) = [row for row in due(node) if row["put_off"]]
    assert tick(node, [late]) == 1
    runs = [node.job(job_id)["options"] for job_id in node.claimed_ids()]
    assert {run["schedule"] for run in runs} == {"first", "second"}
    for run in runs:
        assert datetime.fromisoformat(run["due"]) == datetime.fromisoformat(
            moments[run["schedule"]]
        )
    assert schedule(node, late["name"])["put_off"] is None


@pytest.mark.usefixtures("projects")
def test_a_condition_that_cannot_be_checked_stops_only_its_own(node: Master) -> None:
    """The view is gone: its schedule has no job and says why; the others run."""
    put(node, "sound")
    put(node, "broken", condition={"table": "public.active", "column": "id", "value": "1"})
    tick(node, due(node))
    node.cursor.execute("drop view public.active")
    passes(node, DAY)
    assert tick(node, due(node)) == 1
    assert "cannot be checked" in schedule(node, "broken")["error"]
    assert schedule(node, "sound")["error"] is None


@pytest.mark.usefixtures("projects")
@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ({"table": "public.nowhere", "column": "id", "value": "1"}, "names no column"),
        ({"table": "app", "column": "id", "value": "1"}, "names no column"),
        ({"table": "public.app", "column": "id = 1 or true", "value": "1"}, "names no column"),
        (
            {"table": "public.app; drop table app", "column": "id", "value": "1"},
            "names no column|invalid name|syntax",
        ),
        ({"table": "public.app", "column": "id"}, "names no column"),
    ],
)
def test_a_condition_is_names_and_no_sql(
    node: Master, condition: dict[str, str], said: str
) -> None:
    """What is not a column of a table is refused when it is given."""
    with pytest.raises(psycopg2.Error, match=said):
        put(node, condition=condition)


@pytest.mark.usefixtures("projects")
def test_who_may_not_read_a_table_makes_no_condition_of_it(node: Master) -> None:
    """Else whether jobs come would tell what is in it. And it is the node's own role that looks."""
    condition = {"table": "public.app", "column": "id", "value": "1"}
    put(node, "owner's", condition=condition)
    node.cursor.execute("set role txqueue_worker")
    try:
        with pytest.raises(psycopg2.Error, match="txqueue_worker may not read"):
            put(node, condition=condition)
        assert tick(node, due(node)) == 0
    finally:
        node.cursor.execute("reset role")
    passes(node, DAY)
    node.cursor.execute("set role txqueue_worker")
    try:
        (row,) = due(node)
    finally:
        node.cursor.execute("reset role")
    assert not row["holds"]
    assert "permission denied" in row["error"]


@pytest.mark.parametrize(
    ("kind", "value", "none"),
    [
        ("int", "n", ["x", "", "99999999999999999999"]),
        ("uuid", "lpad(n::text, 32, '0')::uuid", ["x", "7"]),
        ("text", "'of ' || n", ["7"]),
        ("numeric", "n + 0.5", ["x", "7"]),
        ("date", "date '2026-01-01' + n", ["x", "7"]),
    ],
)
def test_a_condition_uses_the_index_of_its_table(
    node: Master, kind: str, value: str, none: list[str]
) -> None:
    """A value that can be none of the column's holds not, and hurts no other."""
    node.cursor.execute(
        f"create table public.app (id {kind} primary key);"
        f"insert into public.app select {value} from generate_series(1, 1000) as n"
    )
    present = node.value(f"select ({value})::text from (values (7)) as seven (n)")
    for each in (present, *none):
        put(node, each or "empty", condition={"table": "public.app", "column": "id", "value": each})
    node.connection.autocommit = False
    reading = (
        "select pg_stat_get_xact_tuples_returned('public.app'::regclass)"
        " + pg_stat_get_xact_tuples_returned('public.app_pkey'::regclass)"
    )
    before = node.value(reading)
    found = {each["name"]: (each["holds"], each["error"]) for each in due(node)}
    assert node.value(reading) - before < 100
    assert found == {present: (True, None)} | {each or "empty": (False, None) for each in none}


@pytest.mark.parametrize(("kind", "value"), [("boolean", True), ("char(3)", "ab"), ("int", 7)])
def test_a_value_is_compared_as_its_columns_type(node: Master, kind: str, value: object) -> None:
    """What Python calls True is true in the database."""
    node.cursor.execute(f"create table public.app (it {kind})")
    node.cursor.execute("insert into public.app values (%s)", (value,))
    condition = Exists("public.app", "it", value)
    put(node, condition=asdict(condition))
    (row,) = due(node)
    assert row["holds"]


@pytest.mark.usefixtures("projects")
async def test_a_condition_on_a_locked_table_is_given_up(pool: ConnectionPool, dsn: str) -> None:
    """Within its patience, with a reason; the next question is answered."""
    schedules = Schedules(pool)
    with closing(psycopg2.connect(dsn)) as other, other.cursor() as cursor:
        cursor.execute("lock table public.app in access exclusive mode")
        with pytest.raises(Refused, match="did not answer within 1 s"):
            await schedules.met("public.app", "id", ["1"])
    assert await schedules.met("public.app", "id", ["1", "7"]) == {"1"}
