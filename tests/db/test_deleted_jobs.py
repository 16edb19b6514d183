"""What belongs to a job goes with it: with one that is deleted, and with a day that is dropped."""

from pathlib import Path

import pytest

from tests.db.masters import Master
from tests.db.past import LEAVES, fill
from tests.db.test_steps import signal, write

PARTS = ("job_step", "job_signal", "failed_attempt")


def failed(node: Master) -> int:
    """A job that has failed, with a step, a signal and an attempt."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    write(node, chunk, {"name": "charge", "result": 7})
    signal(node, job_id, "approved", 1, "key")
    node.settle(chunk, "failed", error="x")
    return job_id


def parts(node: Master) -> dict[int, set[str]]:
    """Which parts there are of which jobs."""
    found: dict[int, set[str]] = {}
    for table in PARTS:
        for job_id in node.column(f"select job_id from txqueue.{table}"):
            found.setdefault(job_id, set()).add(table)
    return found


@pytest.mark.parametrize(
    "sql",
    [
        "delete from txqueue.job where job_id = %s",
        "delete from txqueue.job where state = 'failed' and job_id = %s",
        "delete from txqueue.job_failed where job_id = %s returning *",
        "with gone as (delete from txqueue.job where job_id = %s returning *) select from gone",
    ],
)
def test_what_belongs_to_a_deleted_job_is_deleted(node: Master, sql: str) -> None:
    """By the statement that deletes the job, and nothing of others."""
    job_id, other = failed(node), failed(node)
    node.cursor.execute(sql, (job_id,))
    assert parts(node) == {other: set(PARTS)}


def test_what_moves_keeps_its_parts(node: Master) -> None:
    """Acts of operators delete rows too, and insert them again."""
    ids = [failed(node), failed(node), failed(node)]
    node.value("select cancelled from txqueue.cancel(%s, 'me')", ids[:2])
    node.value("select retried from txqueue.retry(%s, 'me')", ids[1:])
    assert all("job_step" in found for found in parts(node).values())
    assert sorted(parts(node)) == ids


@pytest.mark.parametrize("is_archived", [False, True])
def test_the_steps_of_a_dropped_day_are_dropped(
    migrated_database18: str, tmp_path: Path, *, is_archived: bool
) -> None:
    """Also many; those of other days with numbers in between stay."""
    node = Master(migrated_database18)
    node.cursor.execute(LEAVES.format("done"))
    fill(node, 2500)
    node.cursor.execute(
        "insert into txqueue.job_step (job_id, name, kind)"
        " select n, name, 'step' from generate_series(1, 3000) as n,"
        " unnest('{a,b}'::text[]) as name"
    )
    node.cursor.execute("delete from txqueue.job where job_id = 1000")
    node.cursor.execute(
        "insert into txqueue.job_step (job_id, name, kind) values (1000, 'a', 'step')"
    )
    if is_archived:
        node.cursor.execute("update txqueue.setting set archive = %s", (str(tmp_path),))
        node.cursor.execute(
            "insert into txqueue.archived (leaf, state, day, verified_at)"
            " values ('job_done_20200101', 'done', '2020-01-01', now())"
        )
    assert "-job_done_20200101" in node.value("select txqueue.ensure_history()")
    left = node.column("select distinct job_id from txqueue.job_step order by 1")
    assert left == [1000, *range(2501, 3001)]
    node.close()
