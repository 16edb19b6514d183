"""The schema: made once by any number of migrators, rotated, and read by its indexes."""

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest

from tests.db.stored import Stored, stored


@pytest.fixture
def queue(migrated_database: str) -> Iterator[Stored]:
    """A session of a database of its own."""
    with stored(migrated_database) as session:
        yield session


def rotated(queue: Stored, held: list[str] | None = None) -> tuple[list[str], list[str]]:
    """Rotate lanes of any size; returns what was done and who kept it from doing more."""
    queue.cursor.execute(
        "select did, holders from txqueue.rotate(%s::text[], least_bytes => 1, at_most => 16)",
        (held or [],),
    )
    did, holders = queue.cursor.fetchall()[0]
    return did, holders


def worked_off(queue: Stored, jobs: int = 5) -> None:
    """Enqueue some jobs, and complete them."""
    queue.enqueue(*[{} for _ in range(jobs)])
    for chunk in queue.claim():
        queue.complete(chunk)


def test_a_drained_lane_is_truncated_while_a_snapshot_is_held(migrated_database: str) -> None:
    """Dead rows that vacuum may not touch are gone with the lane."""
    with stored(migrated_database) as queue, closing(psycopg2.connect(migrated_database)) as reader:
        with reader.cursor() as cursor:
            cursor.execute("begin isolation level repeatable read")
            cursor.execute("select 1")
        worked_off(queue, 300)
        assert 0 < queue.value("select pg_relation_size('txqueue.job_ready_0')")
        assert {"truncated job_ready_0", "truncated job_assigned_0"} == {*rotated(queue)[0]}
        assert 0 == queue.value("select pg_relation_size('txqueue.job_ready_0')")


def test_enqueueing_moves_on_to_an_empty_lane(queue: Stored) -> None:
    """At every rotation, and from the last to the first; never to one that is not drained."""
    ids, lanes = [], []
    for _ in range(10):
        # More than the stragglers that would be moved on.
        ids += queue.enqueue(*[{}] * 501)
        rotated(queue)
        lanes.append(queue.value("select txqueue.current_lane()"))
    assert [1, 2, 3, 4, 5, 6, 7, 7, 7, 7] == lanes
    assert ids == queue.claimed_ids(10_000)
    rotated(queue)
    rotated(queue)
    assert 0 == queue.value("select txqueue.current_lane()")


def test_rotation_leaves_a_lane_in_use_alone(migrated_database: str) -> None:
    """An open enqueue holds its lane; who held it at the call before is not waited for."""
    with stored(migrated_database) as queue, stored(migrated_database, "other") as other:
        worked_off(queue)
        other.connection.autocommit = False
        other.enqueue({})
        did, holders = rotated(queue)
        assert "truncated job_ready_0" not in did
        assert ["job_ready_0"] == [holder.split()[0] for holder in holders]
        assert ([], holders) == rotated(queue, holders)
        other.connection.commit()
        assert 1 == len(queue.claimed_ids())
        assert "truncated job_ready_0" in rotated(queue, holders)[0]


def test_rotation_rests_for_a_second(queue: Stored) -> None:
    """Unless a lane is worth it: truncation leaves dead rows in the catalog, which rot as well."""
    worked_off(queue)
    assert "truncated job_ready_0" in rotated(queue)[0]
    worked_off(queue)
    small = "select did from txqueue.rotate(least_bytes => 8192, at_most => 16)"
    now_ms = "(extract(epoch from clock_timestamp()) * 1000)::bigint"
    just_now = f"select setval('txqueue.rotated', {now_ms})"
    assert [] == queue.value(
        f"select did from ({just_now}) as rested, lateral ({small}) as rotated"
    )
    queue.value("select setval('txqueue.rotated', 0)")
    assert "truncated job_ready_1" in queue.value(small)


def test_a_small_stream_leaves_no_lane_behind(migrated_database: str) -> None:
    """Rows of assigned jobs are wider, so that a lane is left before its ready part is worth it."""
    with stored(migrated_database) as queue, closing(psycopg2.connect(migrated_database)) as reader:
        with reader.cursor() as cursor:
            cursor.execute("begin isolation level repeatable read")
            cursor.execute("select 1")
        for _ in range(60):
            worked_off(queue, 100)
            queue.value("select setval('txqueue.rotated', 0)")
            queue.value("select did from txqueue.rotate(least_bytes => 65536)")
        assert queue.value("select max(bytes) from txqueue.lanes() where kind = 'ready'") < 131072


def test_an_unclaimed_row_in_each_lane_does_not_keep_lanes_from_being_free(queue: Stored) -> None:
    """They are moved together, however small the lanes are."""
    for lane in range(8):
        queue.value("select setval('txqueue.lane', %s)", lane)
        queue.enqueue(*[{} for _ in range(200)], {"queue": "unserved"})
    for chunk in queue.claim(10_000):
        queue.complete(chunk)
    queue.value("select did from txqueue.rotate(least_bytes => 65536, at_most => 16)")
    assert [7] == queue.column("select lane from txqueue.job where state = 'ready' group by 1")


def test_stragglers_are_moved_on(queue: Stored) -> None:
    """The last few jobs of an old lane go to the current one and keep their rank."""
    ids = queue.enqueue(*[{} for _ in range(5)])
    assert "moved on job_ready_0" in rotated(queue)[0]
    assert [1] == queue.column("select distinct lane from txqueue.job")
    assert ids == queue.claimed_ids()


def test_history_has_its_days_and_drops_old_ones(queue: Stored) -> None:
    """A week ahead exists; days past retention are dropped, even while others are read."""
    queue.cursor.execute(
        "create table txqueue.job_done_20200101 (like txqueue.job_done including defaults);"
        "alter table txqueue.job_done attach partition txqueue.job_done_20200101"
        " for values from ('2020-01-01') to ('2020-01-02')"
    )
    assert ["-job_done_20200101"] == queue.value("select txqueue.ensure_history()")
    days = queue.value(
        "select count(*) from pg_inherits where inhparent = 'txqueue.job_done'::regclass"
    )
    assert 9 == days


def test_claims_never_scan_a_table(queue: Stored) -> None:
    """With many jobs waiting for the future and stale statistics, a claim reads by index only."""
    queue.cursor.execute(
        "insert into txqueue.job (job_id, rank, not_before, enqueued_at, weight, priority,"
        " lane, state, waiting_for, work_type, queue, payload)"
        " select -n, now(), now() + interval '1 day', now(), 1, 4, 0, 'waiting', 'time',"
        " 'test.kind', 'default', '{}' from generate_series(1, 20000) as n"
    )
    queue.value("select pg_stat_force_next_flush()::text")
    scans = (
        "select coalesce(sum(seq_scan), 0) from pg_stat_user_tables"
        " where relname ~ '^job_(waiting|ready|assigned|done)'"
    )
    before = queue.value(scans)
    for _ in range(3):
        queue.enqueue({}, {"group": "g"})
        for chunk in queue.claim():
            queue.complete(chunk)
    queue.value("select pg_stat_force_next_flush()::text")
    queue.value("select pg_stat_clear_snapshot()::text")
    assert before == queue.value(scans)
