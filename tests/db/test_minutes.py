"""The counts of each minute: noted by one node for all, merged into hours, drawn as charts."""

from typing import Any

import pytest

from tests.db.masters import Master

CHART = """
    select done * seconds, failed * seconds, enqueued * seconds, ready, waiting, wait_p50, run_p50
      from txqueue.chart(3600, 31622400, %s, %s)
"""
LATER = "update txqueue.minute_mark set at = at - interval '61 seconds'"


def chart(node: Master, queue: str | None = None, work_type: str | None = None) -> list[Any]:
    """Return the last hour as numbers of jobs, in one step: it may begin in another hour."""
    node.cursor.execute(CHART, (queue, work_type))
    return [
        [None if each is None else round(each, 3) for each in row] for row in node.cursor.fetchall()
    ]


DONE = """
    insert into txqueue.job (job_id, rank, not_before, enqueued_at, assigned_at, started_at,
        finished_at, weight, priority, lane, state, work_type, queue, payload)
    select nextval('txqueue.job_id'), began, began, began, start, start,
           start + make_interval(secs => %(took)s), 1, 4, 0, 'done', 'test.kind', %(queue)s, '{}'
      from generate_series(1, %(jobs)s),
           lateral (select clock_timestamp() - make_interval(secs => %(before)s)) as a (began),
           lateral (select began + make_interval(secs => %(waited)s)) as b (start)
"""
OLD = """
    insert into txqueue.minute_mark
    select date_trunc('hour', now()) - age + number * interval '1 minute', 60, number, 2
      from generate_series(0, 59) as number,
           (values (interval '60 hours'), (interval '31 days')) as old (age);
    insert into txqueue.minute_counts (at, queue, work_type, done, ready)
    select at, 'default', 'test.kind', 3, 10 from txqueue.minute_mark
"""
MERGED = """
    select seconds, enqueued, done, ready
      from txqueue.minute_mark join txqueue.minute_counts using (at) where seconds > 1000
"""
LARGE = """
    insert into txqueue.job (job_id, rank, not_before, enqueued_at, assigned_at, finished_at,
        weight, priority, lane, state, work_type, queue, payload)
    select number, now(), now(), now(), now(), at, 1, 4, 0, 'done', 'test.kind', 'default',
           to_jsonb(repeat(md5(number::text), 30))
      from generate_series(1, 20000) as number,
           lateral (select now() - interval '100 s' + number * interval '5 ms') as a (at)
     order by number
"""
LAST = "select seconds, enqueued from txqueue.minute_mark order by at desc limit 1"


def done(
    node: Master, jobs: int, queue: str = "default", waited: float = 2, took: float = 4
) -> None:
    """Write jobs that have just ended."""
    said = {"waited": waited, "took": took, "before": waited + took, "queue": queue, "jobs": jobs}
    node.cursor.execute(DONE, said)


def test_a_minute_has_what_jobs_did_in_it(node: Master) -> None:
    """By queue and work type: done, the wait, the run, and the mean number of jobs at two marks."""
    assert node.value("select txqueue.note_minute()")
    node.cursor.execute(LATER)
    done(node, 30)
    done(node, 10, "mail", waited=20, took=1)
    node.enqueue({}, {}, {"not_before": "2100-01-01"})
    assert node.value("select txqueue.note_minute()")
    assert chart(node) == [[40, 0, 43, 1, 0.5, 6.5, 3.25]]
    assert chart(node, "mail") == [[10, 0, 43, 0, 0, 20, 1]]
    assert chart(node, None, "test.kind")[0][0] == 40
    assert chart(node, "nowhere")[0][0] == 0


def test_a_minute_without_ends_has_no_percentiles(node: Master) -> None:
    """Nor does it lower those of others: jobs that run for minutes end in few of them."""
    node.value("select txqueue.note_minute()")
    node.cursor.execute(LATER)
    node.enqueue({})
    node.value("select txqueue.note_minute()")
    ends = "select wait_p50, wait_p95, run_p50, run_p95 from txqueue.chart(3600, 31622400)"
    node.cursor.execute(ends)
    assert node.cursor.fetchall() == [(None,) * 4]
    node.cursor.execute(LATER)
    done(node, 1, waited=60, took=120)
    node.value("select txqueue.note_minute()")
    node.cursor.execute(ends)
    assert [round(each) for each in node.cursor.fetchone() or ()] == [60, 60, 120, 120]


def test_failed_attempts_are_counted_also_those_that_are_tried_again(node: Master) -> None:
    """By the queue of their job."""
    node.value("select txqueue.note_minute()")
    node.cursor.execute(LATER)
    [job_id] = node.enqueue({})
    node.cursor.execute(
        "insert into txqueue.failed_attempt (job_id, attempt) values (%s, 1), (%s, 2)",
        (job_id, job_id),
    )
    node.value("select txqueue.note_minute()")
    assert chart(node, "default")[0][1] == 2


@pytest.mark.parametrize("state", ["done", "cancelled"])
def test_failed_attempts_of_jobs_that_have_ended_are_counted(node: Master, state: str) -> None:
    """A retry that succeeds within the minute hides no failure."""
    node.value("select txqueue.note_minute()")
    node.cursor.execute(LATER)
    done(node, 3, "mail")
    done(node, 5)
    node.cursor.execute("update txqueue.job set state = %s where queue = 'mail'", (state,))
    node.cursor.execute(
        "insert into txqueue.failed_attempt (job_id, attempt)"
        " select job_id, number from txqueue.job, generate_series(1, 2) as number"
        " where queue = 'mail'"
    )
    node.value("select txqueue.note_minute()")
    assert [chart(node, queue)[0][1] for queue in ("mail", "default", None)] == [6, 0, 6]


def test_one_node_notes_a_minute_for_all(node: Master, other: Master) -> None:
    """Others then do nothing; and no two at a time."""
    node.connection.autocommit = False
    assert node.value("select txqueue.note_minute()")
    assert not other.value("select txqueue.note_minute()")
    node.connection.commit()
    node.connection.autocommit = True
    assert not other.value("select txqueue.note_minute()")
    assert node.value("select count(*) from txqueue.minute_mark") == 1


def test_after_a_pause_only_the_last_two_minutes_are_counted(node: Master) -> None:
    """How many were enqueued in that time is not known then."""
    node.value("select txqueue.note_minute()")
    node.cursor.execute("update txqueue.minute_mark set at = at - interval '30 minutes'")
    done(node, 5)
    assert node.value("select txqueue.note_minute()")
    node.cursor.execute(
        "select seconds, enqueued from txqueue.minute_mark order by at desc limit 1"
    )
    [[seconds, enqueued]] = node.cursor.fetchall()
    assert seconds <= 121
    assert enqueued is None


def test_jobs_of_many_names_are_counted_together(node: Master) -> None:
    """Beyond two hundred, so that the table stays small."""
    node.value("select txqueue.note_minute()")
    node.cursor.execute(LATER)
    node.enqueue(*({"queue": f"queue-{number}"} for number in range(300)))
    node.value("select txqueue.note_minute()")
    assert node.value("select count(*) from txqueue.minute_counts") == 201
    assert node.value("select ready from txqueue.minute_counts where queue = ''") == 100


def test_minutes_become_hours_after_two_days_and_end_after_thirty(node: Master) -> None:
    """With the same sums."""
    node.cursor.execute(OLD)
    node.value("select txqueue.note_minute()")
    node.cursor.execute(MERGED)
    assert node.cursor.fetchall() == [(3600, 120, 180, 10)]
    assert node.value("select count(*) from txqueue.minute_counts where done = 3") == 0


def test_only_the_end_of_a_large_day_is_read(node: Master) -> None:
    """And counted up to the whole time: about as many as there were."""
    node.value("select txqueue.note_minute()")
    node.cursor.execute("update txqueue.minute_mark set at = at - interval '100 seconds'")
    node.cursor.execute(LARGE)
    node.value("select txqueue.note_minute()")
    assert 12_000 <= chart(node)[0][0] <= 30_000
