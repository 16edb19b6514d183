"""A job by its number, in whatever state and however long ago."""

from collections.abc import Iterator

import pytest

from tests.db.masters import Master, master
from tests.db.past import LEAVES


@pytest.fixture
def node(migrated_database18: str) -> Iterator[Master]:
    """A session on a database with days of the past."""
    with master(migrated_database18) as session:
        for state in ("done", "cancelled"):
            session.cursor.execute(LEAVES.format(state))
        session.cursor.execute("update txqueue.setting set history_kept = '100 years'")
        yield session


PAST = "2020-01-01 12:00Z"


def put(node: Master, state: str, job_id: int, finished_at: str = PAST) -> None:
    """Put a job into its partition: into the past if it is history."""
    node.cursor.execute(
        "insert into txqueue.job (job_id, rank, not_before, enqueued_at, finished_at, weight,"
        " priority, lane, state, work_type, queue, payload) values (%s, now(), now(), now(),"
        " %s, 1, 4, 0, %s, 'mail', 'default', '{\"a\": [1]}')",
        (job_id, finished_at, state),
    )


def found(node: Master, job_id: int) -> list[str]:
    """The states in which a job is found."""
    return node.column("select state::text from txqueue.find_job(%s)", job_id)


@pytest.mark.parametrize("state", ["waiting", "ready", "assigned", "done", "failed", "cancelled"])
@pytest.mark.parametrize("is_noted", [True, False])
@pytest.mark.parametrize("ended", [PAST, "now"])
def test_a_job_is_found_in_every_state(
    node: Master, state: str, is_noted: bool, ended: str
) -> None:
    """Whole, whether it ended today or on a day of the past, noted or not; and no other."""
    put(node, state, 7, ended)
    if is_noted:
        node.value("select txqueue.ensure_history()")
    assert found(node, 7) == [state]
    assert found(node, 8) == []
    whole = "select (select each from txqueue.find_job(7) as each) = job from txqueue.job"
    assert node.value(whole) is True


def test_a_day_that_holds_more_than_was_noted_is_searched_all_the_same(node: Master) -> None:
    """An administrator may have restored rows by hand."""
    put(node, "done", 7)
    node.value("select txqueue.ensure_history()")
    put(node, "done", 700)
    assert found(node, 700) == ["done"]


def test_days_that_are_gone_are_forgotten(node: Master) -> None:
    """So that a day restored under the same name is recorded again."""
    put(node, "done", 7)
    node.value("select txqueue.ensure_history()")
    # If midnight has passed since the schema was made, days of its own are noted, too.
    noted = (
        "select leaf, lowest, highest from txqueue.history_day"
        " where leaf in ('job_cancelled_20200101', 'job_done_20200101') order by leaf"
    )
    node.cursor.execute(noted)
    assert node.cursor.fetchall() == [
        ("job_cancelled_20200101", None, None),
        ("job_done_20200101", 7, 7),
    ]
    node.cursor.execute("drop table txqueue.job_done_20200101")
    node.value("select txqueue.ensure_history()")
    node.cursor.execute(noted)
    assert [leaf for leaf, *_ in node.cursor.fetchall() if leaf == "job_done_20200101"] == []


def test_days_that_may_still_grow_are_not_noted(node: Master) -> None:
    """Today and yesterday: a transaction of theirs may still be open."""
    node.value("select txqueue.ensure_history()")
    young = (
        "select count(*) from txqueue.history_day"
        " where to_date(right(leaf, 8), 'YYYYMMDD') >= (now() at time zone 'UTC')::date - 1"
    )
    assert node.value(young) == 0


def test_other_days_are_not_looked_at(node: Master) -> None:
    """However many there are: only those that can have the job."""
    put(node, "done", 7)
    node.value("select txqueue.ensure_history()")
    scans = (
        "select coalesce(sum(idx_scan + seq_scan), 0) from pg_stat_user_tables"
        " where relname = 'job_done_20200101'"
    )
    looked = []
    for job_id in (7, 7_000_000):
        node.value("select pg_stat_force_next_flush()::text")
        before = node.value(scans)
        plan = "select count(*) from txqueue.find_job(%s) where job_id = 7"
        node.value(plan, job_id)
        node.value("select pg_stat_force_next_flush()::text")
        node.value("select pg_stat_clear_snapshot()::text")
        looked.append(node.value(scans) - before)
    assert looked[0] == 1


@pytest.mark.parametrize("way", ["enable_nestloop", "enable_hashjoin", "enable_mergejoin"])
def test_tables_of_other_names_do_not_matter(node: Master, way: str) -> None:
    """Whichever way the catalogue is read: their names are no days."""
    put(node, "done", 7)
    node.cursor.execute("create table app (id int); create table txqueue.other_99999999 (id int)")
    node.cursor.execute(f"analyze; set {way} = off")
    dropped = node.value("select txqueue.ensure_history()")
    assert [leaf for leaf in dropped if leaf[0] == "-"] == []
    due = node.column("select leaf from txqueue.history_due('2020-01-02')")
    assert due == ["job_cancelled_20200101", "job_done_20200101"]
    assert found(node, 7) == ["done"]
