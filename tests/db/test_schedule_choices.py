"""Schedules by choice: no overlap, cool-downs from the start, and what counts as a run."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import psycopg2
import pytest
from attrs import define

from tests.db.masters import Master
from tests.db.recurring import DAILY, DAY, JOB, due, made_due, passes, put, schedule, tick
from tests.db.stored import Taken
from txqueue import Key, WorkItem
from txqueue.model.schedule import Cooldown, Cron, Every, schedule_object
from txqueue.node.settings import policy_row
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.queue_state import about_all
from txqueue.store.reads.schedule_list import about_scheduled_runs, about_schedules
from txqueue.worker.handlers.running_job import RunningJob, change

RUN: Final = "select txqueue.run_schedule('often', 'ann')"
PUBLISH: Final = "select txqueue.publish_schedules(array['test.kind'], %s)"
DECLARED: Final = {"name": "test.kind", "terms": schedule_object(DAILY), "job": JOB}


def has_passed(node: Master) -> int:
    """Have a day pass, and tick what is due then; returns how many jobs."""
    passes(node, DAY)
    return tick(node, due(node))


def test_without_overlap_moments_pass_while_the_last_job_has_not_ended(node: Master) -> None:
    """Whether it waits or runs; with it, jobs pile up."""
    put(node, when=Every(DAY, catch_up="one", overlap="skip"))
    put(node, "piled", when=DAILY)
    tick(node, due(node))
    assert [has_passed(node) for _ in range(2)] == [2, 1]
    (chunk,) = node.claim()
    assert has_passed(node) == 1
    node.complete(chunk)
    assert has_passed(node) == 2
    assert (schedule(node)["runs"], schedule(node, "piled")["runs"]) == (2, 4)
    assert schedule(node)["error"] is None


def test_without_overlap_one_of_several_missed_moments_gets_a_job(node: Master) -> None:
    """Even if all were to be made up for."""
    rows = made_due(node, when=Every(DAY / 10, catch_up="all", overlap="skip", times=3))
    assert tick(node, rows) == 1
    assert schedule(node)["runs"] == 1


@pytest.mark.parametrize(("since", "rest"), [("end", 600), ("start", 360)])
def test_a_cool_down_counts_from_the_end_or_the_start(
    node: Master, since: Any, rest: float
) -> None:
    """Of its last run."""
    put(node, when=Cooldown(600, since=since))
    tick(node, due(node))
    has_passed(node)
    (chunk,) = node.claim()
    node.cursor.execute("update txqueue.job set assigned_at = now() - interval '4 minutes'")
    node.complete(chunk)
    left = node.value(
        "select extract(epoch from next_due - clock_timestamp())::float8 from txqueue.schedule"
    )
    assert rest - 60 < left <= rest


@pytest.mark.parametrize("outcome", ["done", "failed", "cancelled"])
def test_a_cool_down_from_the_start_waits_for_the_end(node: Master, outcome: str) -> None:
    """A job that took longer is followed at once."""
    put(node, when=Cooldown(60, since="start"))
    tick(node, due(node))
    has_passed(node)
    (chunk,) = node.claim()
    node.cursor.execute("update txqueue.job set assigned_at = now() - interval '1 hour'")
    assert schedule(node)["next_due"] is None
    node.settle(chunk, outcome)
    assert node.value("select next_due <= clock_timestamp() from txqueue.schedule")


@pytest.mark.parametrize(
    "terms",
    [
        {"kind": "every", "seconds": 60, "overlap": "maybe"},
        {"kind": "every", "seconds": 60, "since": "start"},
        {"kind": "cooldown", "seconds": 60, "since": "now"},
        {"kind": "cooldown", "seconds": 60, "overlap": "skip"},
    ],
)
def test_a_wrong_choice_is_refused(node: Master, terms: dict[str, Any]) -> None:
    """Before anything is written."""
    with pytest.raises(psycopg2.Error, match=r"overlap of|counts neither"):
        node.value(
            "select txqueue.put_schedule('x', %s, %s, null, 'ann')",
            *(json.dumps(terms), json.dumps(JOB)),
        )


@define
class Kept(WorkItem):
    """Work of which one job at a time is enough."""

    number: int
    work_type = "choices.kept"
    unique = Key("{number}")

    def perform(self, job: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize("is_of_its_class", [False, True])
def test_moments_whose_key_is_held_do_not_count(node: Master, is_of_its_class: bool) -> None:
    """The queue is paused: four times are four jobs, not one job at four moments."""
    given: dict[str, Any] = {"unique": "k"}
    if is_of_its_class:
        given = {"payload": {"number": 7}}
        node.value(
            "select txqueue.publish(%s)",
            json.dumps([policy_row(Kept) | {"work_type": "test.kind"}]),
        )
    rows = made_due(node, when=Every(DAY / 10, catch_up="all", times=4), **given)
    assert tick(node, rows) == 1
    kept = schedule(node)
    assert (kept["runs"], kept["next_due"] == "infinity") == (1, False)
    for number in range(2, 5):
        (chunk,) = node.claim()
        node.complete(chunk)
        assert has_passed(node) == 1
        assert schedule(node)["runs"] == number
    assert schedule(node)["next_due"] == "infinity"
    assert len(set(schedule(node)["recent"])) == 4


def test_a_cool_down_waits_for_the_job_that_holds_its_key(node: Master) -> None:
    """Whose own run it is not."""
    node.value("select txqueue.enqueue('test.kind', '{}', \"unique\" => 'k')")
    put(node, when=Cooldown(60), unique="k")
    tick(node, due(node))
    assert has_passed(node) == 0
    assert (schedule(node)["next_due"], schedule(node)["runs"]) == (None, 0)
    (chunk,) = node.claim()
    node.complete(chunk)
    assert schedule(node)["next_due"] is not None


def due_of(node: Master, chunk: Taken) -> datetime | None:
    """What the handler of a job reads as ``job.due``."""
    job = RunningJob.__new__(RunningJob)
    change(job, terms=node.job(chunk.ids[0])["options"])
    return job.due


@pytest.mark.parametrize("by_hand", [False, True])
def test_the_moment_of_a_job_is_in_the_zone_of_its_schedule(node: Master, by_hand: bool) -> None:
    """So that its date is that of the expression; in UTC for schedules without a zone."""
    put(node, when=Cron("0 0 * * *", tz="Pacific/Auckland", catch_up="one"))
    tick(node, due(node))
    passes(node, 2 * DAY)
    node.value(RUN) if by_hand else tick(node, due(node))
    (chunk,) = node.claim()
    found = due_of(node, chunk)
    assert found is not None
    assert found.tzinfo == ZoneInfo("Pacific/Auckland")
    assert by_hand or (found.hour, found.minute) == (0, 0)
    put(node, when=DAILY)
    tick(node, due(node))
    has_passed(node)
    (chunk,) = node.claim()
    found = due_of(node, chunk)
    assert found is not None
    assert found.tzinfo is UTC


def stop(node: Master) -> None:
    """Let no node have the class."""
    node.cursor.execute("update txqueue.node_info set state = 'stopped'")


def test_what_a_class_declares_is_due_only_while_a_node_has_the_class(node: Master) -> None:
    """The class was renamed or deleted; its moments are missed until it is back."""
    node.value(PUBLISH, json.dumps([DECLARED]))
    put(node, "mine")
    assert tick(node, due(node)) == 0
    stop(node)
    passes(node, 3 * DAY)
    assert [row["name"] for row in due(node)] == ["mine"]
    node.cursor.execute("update txqueue.node_info set state = 'alive'")
    assert tick(node, due(node)) == 2


def test_what_no_node_s_class_declares_can_be_removed(node: Master, dsn: str) -> None:
    """The list, the status and doctor say that no node has the class, and how to remove it."""
    node.value(PUBLISH, json.dumps([DECLARED]))
    tick(node, due(node))
    with Session(dsn, "txqueue") as session:
        [row] = session.find(about_schedules("txqueue", {}, 10))
        assert row["has_class"] is True
        node.cursor.execute("update txqueue.node_info set work_types = '{}'")
        passes(node, 3 * DAY)
        [row] = session.find(about_schedules("txqueue", {}, 10))
        assert row["has_class"] is False
        [warning] = [
            each
            for each in session.find(about_all("txqueue"))["warnings"]
            if each["subject"] == "test.kind"
        ]
        assert "remove" in warning["remedy"]
    node.value("select txqueue.remove_schedule('test.kind', 'ann')")
    assert node.column("select name from txqueue.schedule") == []


def test_late_runs_are_also_those_that_have_not_started(node: Master, dsn: str) -> None:
    """They are the latest; a job that ended without a start was not late."""
    assert tick(node, made_due(node, "waiting", "cancelled", "started")) == 3
    waiting, cancelled, started = (
        schedule(node, name)["last_job"] for name in ("waiting", "cancelled", "started")
    )
    node.value("select txqueue.cancel(array[%s]::bigint[], 'ann')", cancelled)
    node.cursor.execute("update txqueue.schedule set dues = array[now() - interval '5 minutes']")
    node.cursor.execute("update txqueue.job set weight = 1000 where job_id = %s", (waiting,))
    node.cursor.execute(
        "update txqueue.job set started_at = now() - interval '4 minutes' where job_id = %s",
        (started,),
    )
    with Session(dsn, "txqueue") as session:
        runs = session.find(about_scheduled_runs("txqueue", late=30))
    assert {row["name"]: round(row["late"]) for row in runs} == {"waiting": 300, "started": 60}


def test_a_retry_does_not_make_a_run_late(node: Master, dsn: str) -> None:
    """It started at its moment, whenever a later attempt runs, and while that is awaited."""
    assert tick(node, made_due(node, "again", "tried")) == 2
    again, tried = (schedule(node, name)["last_job"] for name in ("again", "tried"))
    for job_id in (again, tried):
        node.cursor.execute(
            "insert into txqueue.failed_attempt (job_id, attempt, began, at)"
            " values (%s, 1, now() - interval '295 s', now() - interval '294 s')",
            (job_id,),
        )
    node.cursor.execute("update txqueue.schedule set dues = array[now() - interval '5 minutes']")
    node.cursor.execute("update txqueue.job set attempt = 1")
    node.cursor.execute("update txqueue.job set started_at = now() where job_id = %s", (tried,))
    with Session(dsn, "txqueue") as session:
        assert session.find(about_scheduled_runs("txqueue", late=30)) == []
        runs = session.find(about_scheduled_runs("txqueue"))
    assert {row["name"]: round(row["late"]) for row in runs} == {"again": 5, "tried": 5}


def test_a_snooze_does_not_make_a_run_late(node: Master) -> None:
    """It started at its moment, also while it waits again, in its second run, and at its end."""
    tick(node, made_due(node))
    late = "select round(late) from txqueue.schedule_runs(array['often'])"
    node.cursor.execute("update txqueue.schedule set dues = array[now() - interval '300 s']")
    for ago in (295, 100):
        (chunk,) = node.claim()
        started = "update txqueue.job_assigned set started_at = now() - make_interval(secs => %s)"
        node.cursor.execute(started, (ago,))
        assert node.value(late) == 5
        node.settle(chunk, "snooze", delay=1000)
        assert node.value(late) == 5
        node.cursor.execute("update txqueue.job set not_before = now() where state = 'waiting'")
    (chunk,) = node.claim()
    assert node.value(late) == 5
    node.complete(chunk)
    assert node.value(late) == 5


def test_a_moment_that_is_yet_to_come_is_not_late(node: Master, dsn: str) -> None:
    """Its job waits for it."""
    tick(node, made_due(node))
    node.cursor.execute("update txqueue.schedule set dues = array[now() + interval '5 minutes']")
    late = node.value("select late from txqueue.schedule_runs(array['often'])")
    assert timedelta(seconds=late) == timedelta(0)
