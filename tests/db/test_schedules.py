"""Schedules in the database: ticked once, followed, skipped, paused, and what is refused."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg2
import pytest

from tests.db.damage import LARGE, LOST, lose_large_values
from tests.db.masters import Master
from tests.db.recurring import DAILY, DAY, JOB, PUT, due, made_due, passes, put, schedule, tick
from txqueue.model.schedule import Cooldown, Every, schedule_object

RACERS: Final = 6


def test_a_moment_gets_one_job(node: Master) -> None:
    """For the moment it was due, with the next one computed in the same call."""
    rows = made_due(node, queue="default", group="orders")
    assert tick(node, rows) == 1
    (job_id,) = node.claimed_ids()
    job, kept = node.job(job_id), schedule(node)
    moment = datetime.fromisoformat(rows[0]["due"])
    assert (job["not_before"], job["group"]) == (moment, "orders")
    assert job["options"]["schedule"] == "often"
    assert datetime.fromisoformat(job["options"]["due"]) == moment
    assert datetime.fromisoformat(kept["next_due"]) > datetime.now(UTC)
    assert (kept["last_job"], kept["recent"]) == (job_id, [job_id])


def test_masters_that_race_make_one_job_of_a_moment(node: Master, dsn: str) -> None:
    """Each has seen that it is due, and ticks; in turn or while another's tick is not committed."""
    names = [f"s{number}" for number in range(20)]
    rows = made_due(node, *names)
    others = [Master(dsn, f"racer {number}") for number in range(RACERS)]
    try:
        others[0].connection.autocommit = False
        assert tick(others[0], rows[:10]) == 10
        assert [tick(racer, rows) for racer in others[1:]] == [10, 0, 0, 0, 0]
        others[0].connection.commit()
        assert [tick(racer, rows) for racer in others[1:]] == [0] * (RACERS - 1)
    finally:
        for racer in others:
            racer.close()
    assert len(node.claimed_ids()) == 20


def test_one_that_is_refused_does_not_keep_the_others_back(node: Master) -> None:
    """Its queue is full: its moment has passed, and its row says why."""
    rows = made_due(node, "a", "b", "c")
    node.cursor.execute(
        "update txqueue.schedule set job = job || '{\"queue\": \"full\"}' where name = 'b'"
    )
    node.cursor.execute(
        "insert into txqueue.control (kind, key, backlog, is_full)"
        " values ('queue', 'full', 1, true)"
    )
    assert tick(node, rows) == 2
    assert schedule(node, "b")["error"] == "the queue full is full"
    assert schedule(node, "a")["error"] is None
    assert due(node) == []


def test_a_cool_down_begins_when_its_job_has_ended(node: Master) -> None:
    """However late that is and however it ended; nothing is due meanwhile."""
    put(node, when=Cooldown(30))
    assert tick(node, due(node)) == 0
    for outcome in ("done", "failed", "cancelled", None):
        passes(node, 10_000)
        assert tick(node, due(node)) == 1
        assert schedule(node)["next_due"] is None
        assert due(node) == []
        (chunk,) = node.claim()
        assert schedule(node)["next_due"] is None
        if outcome is None:
            assert node.complete(chunk) == 1
        else:
            assert node.settle(chunk, outcome) == chunk.ids
        ended = node.job(chunk.ids[0])["finished_at"]
        assert datetime.fromisoformat(schedule(node)["next_due"]) - ended >= timedelta(seconds=30)
        assert due(node) == []


def test_a_retry_is_not_the_end(node: Master) -> None:
    """A cool-down waits for the last attempt."""
    put(node, when=Cooldown(30))
    tick(node, due(node))
    passes(node, 100)
    tick(node, due(node))
    (chunk,) = node.claim()
    node.settle(chunk, "retry", delay=0)
    assert schedule(node)["next_due"] is None
    (chunk,) = node.claim()
    node.complete(chunk)
    assert schedule(node)["next_due"] is not None


def test_a_cool_down_outlives_a_job_that_was_deleted(node: Master) -> None:
    """Its end is not noticed, but its absence is detected."""
    put(node, when=Cooldown(30))
    tick(node, due(node))
    passes(node, 100)
    tick(node, due(node))
    assert node.value("select txqueue.start_missed_cooldowns()") == 0
    node.cursor.execute("truncate txqueue.job")
    assert node.value("select txqueue.start_missed_cooldowns()") == 1
    assert schedule(node)["next_due"] is not None


def test_a_paused_schedule_is_not_due_and_makes_up_for_nothing(node: Master) -> None:
    """When it is resumed, its next moment is yet to come."""
    rows = made_due(node)
    assert node.value("select txqueue.pause_schedule('often', 'ann')") is True
    assert due(node) == []
    assert tick(node, rows) == 0
    assert node.value("select txqueue.resume_schedule('often', 'ann')") is True
    assert node.value("select txqueue.resume_schedule('often', 'ann')") is False
    assert tick(node, due(node)) == 0
    assert due(node) == []
    said = node.column("select what from txqueue.action order by action_id")
    assert said == ["schedule", "pause", "resume", "resume"]


def test_it_can_be_run_now(node: Master) -> None:
    """What is due next stays; a cool-down's next job waits for this one."""
    put(node)
    put(node, "slow", Cooldown(60))
    tick(node, due(node))
    before = schedule(node)["next_due"]
    run = "select txqueue.run_schedule(%s, 'ann')"
    ids = [node.value(run, "often"), node.value(run, "often"), node.value(run, "slow")]
    assert schedule(node)["next_due"] == before
    assert schedule(node)["recent"] == [ids[1], ids[0]]
    with pytest.raises(psycopg2.Error, match="has not ended"):
        node.value(run, "slow")
    (chunk,) = node.claim()
    assert chunk.ids == ids
    node.complete(chunk)
    assert schedule(node, "slow")["next_due"] is not None


def test_a_change_counts_from_its_next_moment(node: Master) -> None:
    """A change of the work keeps the next moment; a change of the times recomputes it."""
    put(node)
    tick(node, due(node))
    before = schedule(node)
    put(node)
    put(node, priority=7)
    assert schedule(node)["next_due"] == before["next_due"]
    put(node, when=Every(3600))
    (row,) = due(node)
    assert row["due"] is None
    assert schedule(node)["schedule_id"] == before["schedule_id"]


def test_what_classes_declare_comes_and_goes_with_them(node: Master) -> None:
    """Only schedules of the types that a node knows, and never those made at run time."""
    publish = "select txqueue.publish_schedules(%s::text[], %s)"
    one = {"name": "test.kind", "terms": schedule_object(Every(60)), "job": JOB}
    put(node, "mine")
    assert node.value(publish, ["test.kind"], json.dumps([one])) == 1
    assert node.value(publish, ["test.kind"], json.dumps([one])) == 0
    with pytest.raises(psycopg2.Error, match="is declared on its class"):
        put(node, "test.kind")
    with pytest.raises(psycopg2.Error, match="is declared on its class"):
        node.value("select txqueue.remove_schedule('test.kind', 'ann')")
    assert node.value(publish, ["other.kind"], "[]") == 0
    assert node.value(publish, ["test.kind"], "[]") == 1
    assert node.column("select name from txqueue.schedule") == ["mine"]


@pytest.mark.parametrize(
    ("terms", "job", "said"),
    [
        ({"kind": "never"}, {}, "neither cron nor every"),
        ({"kind": "every", "seconds": 0.5}, {}, "not within a second"),
        ({"kind": "every"}, {}, "not within a second"),
        ({"kind": "every", "seconds": 60, "jitter": 61}, {}, "not within its period"),
        ({"kind": "cron", "expression": "* * * * *"}, {}, "no expression or no zone"),
        *(
            ({"kind": "cron", "expression": "* * * * *", "zone": zone}, {}, "no time zone")
            for zone in ("", "localtime", "posixrules", "posix/UTC", "right/UTC", "/etc/localtime")
        ),
        ({"kind": "every", "seconds": 60, "catch_up": "perhaps"}, {}, "catch_up"),
        ({"kind": "every", "seconds": 60}, {"priority": 11}, "priority 11"),
        ({"kind": "every", "seconds": 60}, {"payload": []}, "not a JSON object"),
    ],
)
def test_what_can_be_no_schedule_is_refused(
    node: Master, terms: dict[str, Any], job: dict[str, Any], said: str
) -> None:
    """When it is made, with nothing written."""
    with pytest.raises(psycopg2.Error, match=said):
        node.value(PUT, "bad", json.dumps(terms), json.dumps(JOB | job), None)
    assert node.value("select count(*) from txqueue.schedule") == 0


def test_a_schedule_that_cannot_be_computed_is_paused_with_a_reason(node: Master) -> None:
    """SQL takes any cron expression; the node that parses it knows."""
    terms = {"kind": "cron", "expression": "61 * * * *", "zone": "UTC"}
    node.value(PUT, "bad", json.dumps(terms), json.dumps(JOB), None)
    assert tick(node, due(node)) == 0
    row = schedule(node, "bad")
    assert not row["is_active"]
    assert "is not a cron expression" in row["error"]


def test_runs_are_read_from_the_jobs_own_rows(node: Master) -> None:
    """How late each started, how long it took, and its outcome; at most twenty are kept."""
    rows = made_due(node)
    assert tick(node, rows) == 1
    (chunk,) = node.claim()
    node.settle(chunk, "failed", error="broken\nat a line")
    for _ in range(25):
        node.value("select txqueue.run_schedule('often', 'ann')")
    node.cursor.execute("select outcome, late, took, error from txqueue.schedule_runs('{often}')")
    runs = node.cursor.fetchall()
    assert [run[0] for run in runs] == ["ready"] * 20
    node.cursor.execute(
        "update txqueue.schedule set recent = array[%s]::bigint[], dues = dues[20:20]",
        (chunk.ids[0],),
    )
    node.cursor.execute("select outcome, late, took, error from txqueue.schedule_runs('{often}')")
    ((outcome, late, took, error),) = node.cursor.fetchall()
    assert (outcome, error) == ("failed", "broken")
    assert took >= 0
    assert isinstance(late, float)


def test_a_look_reads_only_what_is_due_since_the_last(node: Master) -> None:
    """And always those not computed yet; older ones are found by a full check."""
    made_due(node, "old")
    passes(node, DAY)
    put(node, "new")
    now = node.value("select clock_timestamp()")
    assert [row["name"] for row in due(node, now - timedelta(minutes=1))] == ["new"]
    assert {row["name"] for row in due(node)} == {"old", "new"}


def test_nodes_that_publish_lock_in_the_order_of_all(node: Master, other: Master) -> None:
    """Jobs of two schedules that end while a node starts are no deadlock."""
    publish = "select txqueue.publish_schedules('{test.kind}', %s)"
    named = [{"name": name, "terms": schedule_object(DAILY), "job": JOB} for name in "ba"]
    for each in named:
        put(node, str(each["name"]))
    other.connection.autocommit = False
    lock = "select schedule_id from txqueue.schedule where name = %s for update nowait"
    other.value(lock, "b")
    with ThreadPoolExecutor(1) as threads:
        published = threads.submit(node.value, publish, json.dumps(named))
        while not other.value(
            "select exists (select from pg_locks where pid = %s and not granted)",
            node.connection.info.backend_pid,
        ):
            assert not published.done()
        other.value(lock, "a")
        other.connection.commit()
        assert published.result(30) == 2


def test_who_holds_a_key_keeps_only_its_own_schedule_back(node: Master, other: Master) -> None:
    """The others run meanwhile, and it does once the key is free."""
    put(node, "held", unique="k", unique_mode="replace")
    rows = made_due(node, "free")
    assert {row["name"] for row in rows} == {"free", "held"}
    other.connection.autocommit = False
    other.value(
        "select txqueue.enqueue('test.kind', '{}', \"unique\" => 'k', unique_mode => 'replace')"
    )
    assert tick(node, rows) == 1
    assert [row["name"] for row in due(node)] == ["held"]
    other.connection.rollback()
    assert tick(node, due(node)) == 1
    assert due(node) == []


def test_an_end_does_not_wait_for_the_session_that_locks_its_schedule(
    node: Master, other: Master
) -> None:
    """What is to be followed up is left for the next look."""
    put(node, when=Cooldown(30))
    tick(node, due(node))
    passes(node, 10_000)
    tick(node, due(node))
    last = schedule(node)["last_job"]
    look = f"select txqueue.find_held_keys(array[{last}]::bigint[])"
    assert node.value(look) == []
    other.connection.autocommit = False
    other.value("select 1 from txqueue.schedule for update")
    assert node.value(look) == [last]


def test_a_schedule_for_some_times_ends_after_them(node: Master) -> None:
    """Even if many moments are made up for at once; with more times it continues to count."""
    often = Every(DAY / 10, catch_up="all", times=3)
    rows = made_due(node, when=often)
    assert tick(node, rows) == 3
    assert (schedule(node)["next_due"], schedule(node)["runs"]) == ("infinity", 3)
    assert due(node) == []
    put(node, when=often)
    assert due(node) == []
    put(node, when=Every(DAY / 10, catch_up="all", times=5))
    assert tick(node, due(node)) == 0
    passes(node, DAY)
    assert tick(node, due(node)) == 2
    assert (schedule(node)["next_due"], schedule(node)["runs"]) == ("infinity", 5)


def test_a_schedule_until_a_moment_is_due_at_none_after_it(node: Master) -> None:
    """What was due before is made up for, what would have been after is not."""
    put(node, when=Every(DAY / 10, catch_up="all"))
    tick(node, due(node))
    passes(node, DAY)
    (row,) = due(node)
    first = datetime.fromisoformat(row["due"])
    until = first + timedelta(days=0.25)
    node.cursor.execute("update txqueue.schedule set until = %s", (until,))
    assert tick(node, [row]) == 3
    assert schedule(node)["next_due"] == "infinity"
    put(node, "past", when=Every(60, until=datetime(2020, 1, 1, tzinfo=UTC)))
    assert tick(node, due(node)) == 0
    assert schedule(node, "past")["next_due"] == "infinity"


@pytest.mark.parametrize(
    "end", [{"times": 1}, {"until": datetime.now(UTC) + timedelta(days=0.1)}], ids=str
)
def test_the_end_of_the_last_job_of_a_cooldown_begins_no_other(
    node: Master, end: dict[str, Any]
) -> None:
    """Neither by itself, nor by the repair of missed ends, nor by a manual run."""
    put(node, when=Cooldown(DAY, **end))
    tick(node, due(node))
    node.cursor.execute("update txqueue.schedule set next_due = clock_timestamp()")
    assert tick(node, due(node)) == 1
    (chunk,) = node.claim()
    node.settle(chunk, "done")
    assert schedule(node)["next_due"] == "infinity"
    node.value("select txqueue.run_schedule('often', 'ann')")
    assert schedule(node)["next_due"] is None
    (chunk,) = node.claim()
    node.settle(chunk, "done")
    assert (schedule(node)["next_due"], schedule(node)["runs"]) == ("infinity", 1)
    assert node.value("select txqueue.start_missed_cooldowns()") == 0


EDIT: Final = "select txqueue.edit_schedule(%s, %s, 'ann')"


def terms(when: Any) -> str:
    """Return the times of a schedule as its functions take them."""
    return json.dumps(schedule_object(when))


def test_an_edit_replaces_the_times_and_keeps_the_rest(node: Master) -> None:
    """The job, the condition, and what it has enqueued; its next moment is computed anew."""
    node.cursor.execute("create table app (project text); insert into app values ('7')")
    condition = {"table": "public.app", "column": "project", "value": "7"}
    put(node, "often", condition=condition, group="orders")
    tick(node, due(node))
    passes(node, DAY)
    tick(node, due(node))
    before = schedule(node)
    assert node.value(EDIT, "often", terms(Every(600, times=3))) is True
    after = schedule(node)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"seconds", "catch_up", "times", "next_due"}
    assert (after["seconds"], after["times"], after["next_due"]) == (600, 3, "-infinity")
    assert node.value(EDIT, "often", terms(Every(600, times=3))) is False
    said = node.column("select what from txqueue.action order by action_id")
    assert said == ["schedule", "schedule"]


def test_an_edit_of_a_condition_s_schedule_needs_no_right_on_its_table(node: Master) -> None:
    """As the condition stays as it is, even if its table is gone."""
    node.cursor.execute("create table app (project text)")
    put(node, "often", condition={"table": "public.app", "column": "project", "value": "7"})
    node.cursor.execute("drop table app")
    assert node.value(EDIT, "often", terms(Every(600))) is True


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("none", terms(DAILY), "there is no schedule none"),
        ("often", '{"kind": "moon"}', "neither cron nor every nor cooldown"),
        ("often", '{"kind": "every", "seconds": 0}', "not within a second and a year"),
        ("often", '{"kind": "cron", "expression": "0 3 * * *"}', "no expression or no zone"),
        ("own", terms(DAILY), "the schedule own is declared in the code"),
    ],
)
def test_an_edit_is_refused(node: Master, name: str, given: str, said: str) -> None:
    """And changes nothing, nor leaves an act."""
    put(node)
    own = (terms(Cooldown(60)), json.dumps(JOB))
    node.value("select txqueue.put_schedule('own', %s, %s, null, null, true)", *own)
    with pytest.raises(psycopg2.Error, match=said):
        node.value(EDIT, name, given)
    assert schedule(node)["seconds"] == DAY
    assert node.value("select count(*) from txqueue.action") == 1


def test_a_schedule_whose_row_is_damaged_stops_no_other(node: Master) -> None:
    """It gets no job, says why, and goes on to its next moment."""
    put(node, "bad", payload={"text": LARGE})
    put(node, "good")
    tick(node, due(node))
    passes(node, DAY)
    lose_large_values(node)
    rows = due(node)
    assert {row["name"] for row in rows} == {"bad", "good"}
    assert tick(node, rows) == 1
    assert due(node) == []
    found = "select name, last_job is not null, error from txqueue.schedule order by name"
    node.cursor.execute(found)
    (bad, bad_ran, error), (good, good_ran, none) = node.cursor.fetchall()
    assert (bad, bad_ran, good, good_ran, none) == ("bad", False, "good", True, None)
    assert error.startswith(f"its job cannot be read: {LOST}")
