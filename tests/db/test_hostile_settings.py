"""Settings of a role, a database or PGOPTIONS that change how values are read and written.

An application keeps its settings when it calls txqueue's functions; a node's sessions set theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import pytest
from psycopg2.extensions import make_dsn, parse_dsn

from tests.db.masters import master
from tests.db.stored import KIND
from tests.waiting import running_reactor
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.model.assignment import CompletedJobs, SettledJob, StartedJob, read_chunk
from txqueue.policy.placement.room import Room
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.session_bounds import of_a_master
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.outcomes import as_settled_jobs

# Each with the value that changes the most of what PostgreSQL reads or writes.
READING = {
    "array_nulls": "off",
    "backslash_quote": "off",
    "bytea_output": "escape",
    "client_min_messages": "debug1",
    "DateStyle": "German",
    "default_transaction_deferrable": "on",
    "escape_string_warning": "off",
    "extra_float_digits": "-15",
    "gin_fuzzy_search_limit": "1",
    "IntervalStyle": "sql_standard",
    "lc_numeric": "C",
    "lc_time": "C",
    "plpgsql.extra_errors": "all",
    "quote_all_identifiers": "on",
    "row_security": "off",
    "search_path": "public",
    "standard_conforming_strings": "off",
    "TimeZone": "Asia/Kolkata",
    "transform_null_equals": "on",
    "xmloption": "document",
}
PLANNING = {
    "debug_parallel_query": "on",
    "enable_indexscan": "off",
    "enable_nestloop": "off",
    "enable_seqscan": "off",
    "from_collapse_limit": "1",
    "jit_above_cost": "0",
    "plan_cache_mode": "force_generic_plan",
    "work_mem": "64kB",
}
ERROR = 'Traceback:\n  File "C:\\app\\x.py", line 3, in f\nValueError: \\d "q" 10.0.0.1 Ünï 5 €'
LATER = (datetime.now(UTC) + timedelta(days=1)).isoformat()
JOBS: tuple[dict[str, Any], ...] = (
    {"payload": {"text": "5 € \\d 'q' \u2028", "number": 1.25e-7, "none": None}},
    {"options": {"tags": {"a": "back\\slash €"}}, "group": "g€", "tenant": "t\\"},
    {"not_before": LATER},
)
# In a call of its own, as enqueue_many() writes jobs with a key in another way.
UNIQUE: dict[str, Any] = {"unique": "u\\", "options": {"created_by": "\\ €"}, "priority": 9}


NODE = {
    "name": "n1",
    "hostname": "host",
    "pid": 1,
    "port": None,
    "lease": 10,
    "capacity": 100,
    "queues": ["default"],
    "version": "1",
    "address": None,
}
CLAIM: Any = {
    "queues": ["default"],
    "work_types": ["test.kind"],
    "room": Room(free=1, limit=1, largest=1, capacity=100, workers=1),
    "chunk_jobs": 10,
    "since": None,
}


def options(settings: dict[str, str]) -> str:
    """Settings as PGOPTIONS gives them."""
    return " ".join(f"-c {name}={text}" for name, text in settings.items())


def whole(job: dict[str, Any]) -> dict[str, Any]:
    """A job as `enqueue_many()` takes it."""
    return {"work_type": "test.kind", "payload": {}, **job}


def plain_fingerprint(dsn: str) -> str:
    """The fingerprint of the error in a session with the server's defaults."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("select txqueue.fingerprint(%s)", (ERROR,))
        [(fingerprint,)] = cursor.fetchall()
        return str(fingerprint)


@pytest.mark.parametrize(
    "settings",
    [
        READING,
        PLANNING,
        {"standard_conforming_strings": "off"},
        {"array_nulls": "off"},
        {"extra_float_digits": "-15", "DateStyle": "SQL,DMY"},
    ],
    ids=["reading", "planning", "strings", "arrays", "values"],
)
def test_the_functions_depend_on_no_setting(
    migrated_database18: str, settings: dict[str, str]
) -> None:
    """Jobs are enqueued, claimed, completed, failed, retried and found in such a session."""
    with master(make_dsn(migrated_database18, options=options(settings))) as node:
        first, second, later = node.enqueue(*JOBS)
        (third,) = node.enqueue(UNIQUE)
        assert node.waiting("time") == [later]
        taken = node.take(1)
        while chunks := node.take(1).chunks:
            taken.chunks.extend(chunks)
        jobs = {job.job_id: (chunk, job) for chunk in taken.chunks for job in chunk.jobs}
        assert jobs.keys() == {first, second, third}
        assert jobs[first][1].payload == JOBS[0]["payload"]
        done, failed, retried = (jobs[job_id][0] for job_id in (first, second, third))
        assert node.complete(done) == 1
        assert node.settle(failed, "failed", error=ERROR) == [second]
        assert node.settle(retried, "retry", error=ERROR, delay=3600) == [third]
        assert node.states() == {"done": 1, "failed": 1, "waiting": 2}
        assert node.job(second)["fingerprint"] == plain_fingerprint(migrated_database18)
        assert node.value("select failed from txqueue.failure_kinds(10, 10)") == 1
        assert node.value("select txqueue.retry(array[%s], 'ann')", second) is not None
        assert node.value("select txqueue.explain_facts(%s)", third)["job"]["job_id"] == third
        node.value("select txqueue.ensure_history()")
        assert node.claimed_ids() == [second]


def set_in_database(dsn: str, settings: dict[str, str]) -> None:
    """Change settings of a database."""
    name = parse_dsn(dsn)["dbname"]
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        for setting, text in settings.items():
            cursor.execute(f"alter database {name} set {setting} = %s", (text,))


async def cycle(dsn: str, session: Mapping[str, str] | None) -> tuple[dict[str, int], list[Any]]:
    """Let a node's sessions enqueue, claim, complete and fail; return states, and payloads."""
    pool = ConnectionPool(running_reactor(), dsn, 2, "test", session=session)
    functions = StoredFunctions(pool)
    try:
        for jobs in (JOBS, [UNIQUE]):
            await pool.query("select txqueue.enqueue_many(%s)", (json.dumps([*map(whole, jobs)]),))
        node_id, incarnation, _ = await functions.register_node(NODE, [KIND])
        identity = node_id, incarnation
        taken = []
        while found := (await functions.next_job(*identity, **CLAIM)).assignments:
            taken += [(each, read_chunk(each.chunk)[0]) for each in found]
        (done, unique), (other, first), *_ = taken
        await functions.started(identity[1], [StartedJob(other.number, first.job_id, 2.5, None)])
        completed = CompletedJobs(done.lane, done.number, str(unique.job_id))
        await functions.complete(identity[1], [completed])
        for each, job in taken[1:]:
            failed = SettledJob(job.job_id, each.number, "failed", error=ERROR)
            await functions.settle(identity[1], [as_settled_jobs([failed])])
        rows = await pool.query("select state::text, count(*) from txqueue.job group by 1")
        return dict(rows), [job.payload for _, job in taken]
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("way", "encoding"),
    [
        ("database", "LATIN1"),
        ("PGOPTIONS", "SQL_ASCII"),
        ("PGCLIENTENCODING", "LATIN1"),
        ("DSN", "SQL_ASCII"),
    ],
)
async def test_a_node_and_commands_work_whatever_the_settings(
    migrated_database18: str,
    encoding: str,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They set those that they need, in whatever way others were given."""
    dsn = migrated_database18
    settings = {**READING, "client_encoding": encoding}
    if way == "database":
        set_in_database(dsn, settings)
    elif way == "PGOPTIONS":
        monkeypatch.setenv("PGOPTIONS", options(settings))
    elif way == "PGCLIENTENCODING":
        monkeypatch.setenv("PGCLIENTENCODING", encoding)
    else:
        dsn = make_dsn(dsn, client_encoding=encoding)
    states, payloads = await cycle(dsn, of_a_master(10.0))
    assert states == {"done": 1, "failed": 2, "waiting": 1}
    assert JOBS[0]["payload"] in payloads
    for command in ("jobs", "job 1", "failures", "status"):
        assert run(["--dsn", dsn, *command.split()], GlobalOptions()) == 0
    said = capsys.readouterr()
    assert "5 €" in said.out
    assert not said.err


async def test_a_node_works_where_it_can_set_nothing(migrated_database18: str) -> None:
    """As behind a pooler; only the encoding is the connection's own there, too."""
    set_in_database(migrated_database18, {**READING, "client_encoding": "LATIN1"})
    states, payloads = await cycle(migrated_database18, None)
    assert states == {"done": 1, "failed": 2, "waiting": 1}
    assert JOBS[0]["payload"] in payloads
