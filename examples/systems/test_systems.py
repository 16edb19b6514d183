"""The work of the five systems, in the transaction of each test."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg2
import pytest
from psycopg2.extensions import connection as Connection

from examples.systems import calendar, recipes, scheduler, sync, tenants
from examples.systems.calendar import Push, Remind
from examples.systems.recipes import Index
from examples.systems.scheduler import Notify, Transcode
from examples.systems.sync import SendShipments, TakeOrders
from examples.systems.tenants import Convert, Count
from txqueue.adapters.psycopg2 import batch, enqueue
from txqueue.testing import all_enqueued, assert_enqueued, connected, drain, perform

SYSTEMS = (calendar, tenants, scheduler, recipes, sync)


@pytest.fixture
def db(txqueue_dsn: str) -> Iterator[Connection]:
    """A connection with the tables of all systems; rolled back at the end."""
    with closing(psycopg2.connect(txqueue_dsn)) as connection, connected(connection):
        with connection.cursor() as cursor:
            for system in SYSTEMS:
                cursor.execute(system.TABLES)
        yield connection


def rows(db: Connection, sql: str) -> list[tuple[object, ...]]:
    """Run a statement in the test's transaction."""
    with db.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []


def test_changes_of_a_calendar_are_one_push(db: Connection) -> None:
    """However many they are; another calendar has its own."""
    for name in ("home", "home", "work", "home"):
        enqueue(db, Push(name))
    drain()
    assert rows(db, "select * from push order by calendar") == [("home", 3), ("work", 1)]


def test_a_reminder_keeps_its_time(db: Connection) -> None:
    """It does not run before."""
    due = datetime.now(UTC) + timedelta(hours=1)
    enqueue(db, Remind("dinner"), not_before=due)
    assert drain() == []
    assert [run.kind for run in drain(until=due)] == ["done"]


def test_a_user_s_pictures_are_counted_once(db: Connection) -> None:
    """After all have been tried; each task belongs to its user."""
    with batch(db, Count("small")) as small:
        small.enqueue_many([Convert("small", number) for number in (6, 7, 8)])
    assert_enqueued(Convert, tenant="small", count=3)
    runs = drain(until=timedelta(minutes=1), raise_errors=False)
    assert sorted(run.kind for run in runs) == ["done", "done", "done", "done", "retry"]
    assert rows(db, "select * from account") == [("small", 3)]


def test_a_client_without_an_answer_is_told_later(db: Connection) -> None:
    """With growing pauses; a wrong address is hopeless at once."""
    delays = [perform(Notify("ada@example.com"), attempt=run).delay or 0.0 for run in (1, 2)]
    assert 0 < delays[0] < delays[1]
    assert perform(Notify("ada@example.com"), attempt=3).get() == "told at attempt 3"
    assert perform(Notify("nobody")).kind == "failed"


def test_heavy_work_has_a_cluster_of_its_own(db: Connection) -> None:
    """By its queue."""
    number = enqueue(db, Transcode("alien"))
    assert assert_enqueued(Transcode, queue="heavy").id == number
    assert [run.get() for run in drain()] == ["alien.webm"]


def test_a_change_in_sql_is_found(db: Connection) -> None:
    """Several changes before a run are one run."""
    for _ in range(3):
        rows(db, recipes.CHANGE)
    assert_enqueued(Index, count=1)
    drain()
    assert rows(db, "select * from found_product") == [(1, 3)]


def test_a_pipeline_goes_on_where_it_failed(db: Connection) -> None:
    """Three attempts of its last stage, on the row of the first."""
    rows(db, recipes.IMPORT)
    runs = drain(until=timedelta(minutes=1), raise_errors=False)
    assert [run.kind for run in runs].count("retry") == 4
    assert {job.state for job in all_enqueued(state="failed")} == {"failed"}
    assert [failed for _, failed, _ in rows(db, recipes.BY_ERROR)] == [2]


def test_tasks_of_a_project_are_one_group(db: Connection) -> None:
    """Whatever their types."""
    enqueue(db, TakeOrders(1))
    enqueue(db, SendShipments(1))
    assert_enqueued(TakeOrders, group="project:1")
    assert_enqueued(SendShipments, group="project:1")
    drain()
    assert rows(db, "select task from call") == [("sync.take_orders",), ("sync.send_shipments",)]
