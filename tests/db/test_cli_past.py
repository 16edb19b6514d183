"""What the command tells of what has ended: in the table or in the archive, and by the hour."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.db.masters import Master
from tests.db.past import LEAF, LEAVES, fill, leaves

Call = Callable[..., Any]
SPAN = ("--from", "2020-01-01T12:00", "--to", "2020-01-02")


@pytest.fixture
def past(node: Master) -> Master:
    """A session, with an empty day of the past."""
    for state in ("done", "cancelled"):
        node.cursor.execute(f"drop table if exists txqueue.job_{state}_20200101")
        node.cursor.execute(LEAVES.format(state))
    node.cursor.execute("delete from txqueue.archived")
    return node


def test_history_is_the_same_before_and_after_the_archive(
    past: Master, txqueue: Call, shown: Call, tmp_path: Path
) -> None:
    """The last first, with filters, wherever the jobs are."""
    fill(past, 500)
    questions = [
        SPAN,
        (*SPAN, "--limit", "500", "--type", "test.kind"),
        (*SPAN, "--state", "failed"),
        (*SPAN[:3], "2020-01-01T12:00:50", "--limit", "100"),
    ]
    before = [txqueue("history", *words)["jobs"] for words in questions]
    assert [len(jobs) for jobs in before] == [20, 500, 0, 49]
    assert {job["archived"] for job in before[1]} == {False}
    done = txqueue("archive", "--to", str(tmp_path))["archived"]
    assert [one["outcome"] for one in done] == ["dropped", "dropped"]
    after = [txqueue("history", *words)["jobs"] for words in questions]
    assert [[job["job_id"] for job in jobs] for jobs in after] == [
        [job["job_id"] for job in jobs] for jobs in before
    ]
    same = [{**job, "archived": False} for job in after[1]]
    assert same == before[1]
    assert "archive" in shown("history", *SPAN)
    assert "No such job" in shown("history", *SPAN, "--queue", "absent")


@pytest.mark.parametrize("command", ["history", "stats"])
def test_a_span_ends_at_the_moment_of_the_database(
    past: Master, txqueue: Call, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Not at that of the host, whose clock may be behind."""

    class Behind(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) - timedelta(hours=2)

    monkeypatch.setattr("txqueue.cli.history.datetime", Behind)
    document = txqueue(command)
    now = past.value("select clock_timestamp()")
    assert now - timedelta(minutes=5) < datetime.fromisoformat(document["to"]) < now
    assert datetime.fromisoformat(document["from"]) < now - timedelta(hours=23)


def test_archive_takes_days_before_one_that_is_named(
    past: Master, txqueue: Call, shown: Call, tmp_path: Path
) -> None:
    """Younger ones than those that are kept no longer, too; never today's."""
    past.cursor.execute("update txqueue.setting set history_kept = '100 years'")
    fill(past, 5)
    assert txqueue("archive", "--to", str(tmp_path)) == {"archived": []}
    assert "Nothing is to be archived" in shown("archive", "--to", str(tmp_path))
    text = shown("archive", "--to", str(tmp_path), "--before", "2020-01-02")
    assert "done 2020-01-01: 5 jobs, dropped" in text
    assert LEAF not in leaves(past)


def test_statistics_are_by_hour_and_type(past: Master, txqueue: Call, shown: Call) -> None:
    """How many ended how, how long they took, how long they had waited since they were due."""
    past.cursor.execute(
        "insert into txqueue.job (job_id, rank, not_before, enqueued_at, assigned_at, started_at,"
        " finished_at, weight, priority, lane, state, work_type, queue, payload)"
        " select n, noon, noon, noon - interval '1 day', noon + n * interval '2 s',"
        " case n when 3 then noon + interval '7 s' end, noon + interval '10 s', 1, 4, 0,"
        " (array['done', 'done', 'failed', 'cancelled'])[n]::txqueue.job_state,"
        " 'mail', 'default', '{}'"
        " from generate_series(1, 4) as n, (values (timestamptz '2020-01-01 12:00Z')) as at (noon)"
    )
    (hour,) = txqueue("stats", *SPAN)["stats"]
    assert hour == {
        "hour": "2020-01-01T12:00:00+00:00",
        "work_type": "mail",
        "done": 2,
        "failed": 1,
        "cancelled": 1,
        "busy": 8.0 + 6.0 + 3.0 + 2.0,
        "mean": 19 / 4,
        "longest": 8.0,
        "waited": (2.0 + 4.0 + 7.0 + 8.0) / 4,
    }
    assert "mail" in shown("stats", *SPAN)
    assert "Nothing has ended" in shown("stats", "--from", "2019-01-01", "--to", "2019-01-02")


def test_statistics_read_no_other_day(past: Master, txqueue: Call) -> None:
    """Those before and after are not touched, however large."""
    fill(past, 50)
    # What has the latest days is left alone, in spite of statistics that say nothing.
    read = (
        "select coalesce(sum(seq_scan + idx_scan), 0) from pg_stat_user_tables"
        " where relname ~ '^job_(done|cancelled)_' and relname !~ '20200101'"
    )
    past.value("select pg_stat_force_next_flush()::text")
    before = past.value(read)
    past.cursor.execute("select count(*) from txqueue.stats('2020-01-01Z', '2020-01-02Z')")
    past.value("select pg_stat_force_next_flush()::text")
    past.value("select pg_stat_clear_snapshot()::text")
    assert past.value(read) == before
    own = read.replace("!~", "~")
    assert past.value(own) > 0


def test_an_archived_job_is_found_by_its_number(
    past: Master, txqueue: Call, shown: Call, tmp_path: Path
) -> None:
    """All that was known of it but what only the table tells; and that it is archived."""
    fill(past, 50)
    before = txqueue("job", "11")
    txqueue("archive", "--to", str(tmp_path))
    after = txqueue("job", "11")
    assert (before.pop("archived"), after.pop("archived")) == (False, True)
    assert {**after, "at": None} == {**before, "at": None}
    assert "done (archived)" in shown("job", "11")
    why = txqueue("explain", "11")
    assert (why["state"], why["reason"]) == ("done", "done")
    assert "is archived" in why["detail"]
    assert why["remedy"].endswith("txqueue repeat 11")
    assert "there is no job 51" in shown("job", "51")
    assert "there is no job 51" in shown("explain", "51")


def test_an_archived_job_is_repeated(
    past: Master, txqueue: Call, shown: Call, tmp_path: Path
) -> None:
    """As one in the table is, with the same payload and options; all that are named or none."""
    fill(past, 50)
    txqueue("archive", "--to", str(tmp_path))
    assert "there is no job 51" in shown("repeat", "11", "51")
    assert past.value("select count(*) from txqueue.job") == 0
    told = txqueue("repeat", "11", "12")["repeated"]
    assert [each["job_id"] for each in told] == [11, 12]
    first, second = (past.job(each["new_id"]) for each in told)
    assert (first["payload"]["n"], first["options"]) == (11, {"timeout": 3})
    assert (second["payload"]["n"], second["tenant"]) == (12, "ada")
    noted = past.column("select detail -> 'jobs' from txqueue.action where what = 'repeat'")
    assert noted == [[each["job_id"], each["new_id"]] for each in told]
    [other] = txqueue("repeat", "12", "--payload", '{"n": 5}')["repeated"]
    assert past.job(other["new_id"])["payload"] == {"n": 5}


def test_stats_are_the_same_before_and_after_the_archive(
    past: Master, txqueue: Call, tmp_path: Path
) -> None:
    """Also where a day is archived in one state only, and hours lie in both."""
    fill(past, 600)
    past.cursor.execute(
        "update txqueue.job set state = 'failed', job_id = job_id + 10000, started_at = null"
        " where job_id % 3 = 0"
    )
    past.cursor.execute("update txqueue.job set assigned_at = null where job_id % 30 = 0")
    before = txqueue("stats", *SPAN)["stats"]
    assert {row["failed"] > 0 and row["done"] > 0 for row in before} == {True}
    txqueue("archive", "--to", str(tmp_path))
    after = txqueue("stats", *SPAN)["stats"]
    assert [row["hour"] for row in after] == [row["hour"] for row in before]
    assert all(rounded(now) == rounded(then) for now, then in zip(after, before, strict=True)), (
        after,
        before,
    )


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """A row but for what adding in another order changes."""
    return {
        key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()
    }
