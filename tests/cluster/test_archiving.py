"""Nodes archive the days of history that are kept no longer."""

from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.waiting import eventually

DAY = """
    create table txqueue.job_done_20200101 (like txqueue.job_done including defaults);
    alter table txqueue.job_done attach partition txqueue.job_done_20200101
        for values from ('2020-01-01Z') to ('2020-01-02Z');
    insert into txqueue.job (job_id, rank, not_before, enqueued_at, finished_at, weight, priority,
        lane, state, work_type, queue, payload)
    select n, noon, noon, noon, noon, 1, 4, 0, 'done', 'mail', 'default', '{}'
      from generate_series(1, 1000) as n, (values (timestamptz '2020-01-01 12:00Z')) as at (noon)
"""
LEFT = "select to_regclass('txqueue.job_done_20200101') is null"


async def test_a_node_archives_before_it_drops(nodes: Nodes, db: Database, tmp_path: Path) -> None:
    """Two nodes start at once: the day is in the archive once, and gone from the table."""
    db.execute(DAY)
    folder = tmp_path / "archive"
    db.execute("update txqueue.setting set archive = %s", str(folder))
    first, second = nodes.start("--workers", "1"), nodes.start("--workers", "1")
    await eventually(partial(db.value, LEFT), PATIENCE)
    await first.up()
    await second.up()
    assert pq.read_table(folder / "done" / "2020-01-01.parquet").num_rows == 1000
    (noted,) = db.rows("select jobs, location from txqueue.archived where state = 'done'")
    assert noted == {"jobs": 1000, "location": str(folder)}


async def test_a_node_that_cannot_archive_says_so_and_drops_nothing(
    nodes: Nodes, db: Database, tmp_path: Path
) -> None:
    """Its jobs run as usual."""
    db.execute(DAY)
    (tmp_path / "file").write_text("")
    db.execute("update txqueue.setting set archive = %s", str(tmp_path / "file"))
    node = nodes.start("--workers", "1")
    await eventually(
        lambda: "history was not archived, and so was not dropped" in node.log, PATIENCE
    )
    assert db.value(LEFT) is False
    await node.up()
