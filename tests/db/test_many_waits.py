"""Jobs that wait cost an idle node nothing, and little when all of them are woken at once."""

import json

import pytest

from tests.db.masters import Master

pytestmark = pytest.mark.new_sessions

HEARTBEAT = "select * from txqueue.heartbeat({}, 0.0)"
CLAIM = "select * from txqueue.next_job({1}, {0}, '{{default}}', '{{test.kind}}', 9, 9, 100, 9, 1)"
SIGNAL = "select count(txqueue.signal(job_id, 'go')) from txqueue.job_waiting"
PROPAGATE = "select txqueue.propagate_late_ends()"
WAITS = {
    "signal": {"name": "a", "kind": "signal", "signal": "go"},
    "sleep": {"name": "a", "kind": "sleep", "seconds": 90_000},
}
TABLES = ", ".join(
    f"txqueue.job_{name}" for name in ("waiting", "ready", "assigned", "step", "signal")
)
CHECKS = """
    select conname from pg_constraint
     where contype = 'c' and conrelid = any (cast(%s::text[] as regclass[]))"""
CALLS = "select coalesce(sum(calls), 0)::integer from pg_stat_xact_user_functions"


def waiting(node: Master, kind: str, jobs: int) -> None:
    """Have so many jobs wait."""
    node.enqueue(*[{}] * jobs)
    for chunk in node.claim(jobs):
        node.settle(chunk, "suspended", waits=[WAITS[kind]])
    node.cursor.execute(f"vacuum analyze {TABLES}")


def pages(node: Master, sql: str) -> int:
    """Run a statement; returns how many pages of tables and indexes that reads."""
    node.cursor.execute(
        "explain (analyze, buffers, timing off, format json) "
        + sql.format(node.incarnation, node.node_id)
    )
    [[[plan]]] = node.cursor.fetchall()
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize("kind", WAITS)
def test_an_idle_node_reads_no_job_that_waits(kind: str, node: Master) -> None:
    """Neither a heartbeat while its master sleeps nor a claim."""
    node.value("select setval('txqueue.asleep', 1)")

    def least() -> list[int]:
        return [min(pages(node, sql) for _ in range(5)) for sql in (HEARTBEAT, CLAIM)]

    none = least()
    waiting(node, kind, 1000)
    assert all(now < before + 8 for now, before in zip(least(), none, strict=True))


def test_a_signal_calls_no_function_for_nothing(node: Master) -> None:
    """While no master sleeps, and its value needs no check."""
    waiting(node, "signal", 10)
    node.cursor.execute("set track_functions = 'all'")
    node.connection.autocommit = False
    assert node.value(SIGNAL) == 10
    assert node.value(CALLS) == 10
    node.connection.rollback()


def test_no_check_is_parsed_for_each_job_or_signal(node: Master) -> None:
    """PostgreSQL reads the checks of a table from their texts in each execution of an insert."""
    tables = [
        f"txqueue.{name}" for name in ("job", "unique_job", "late_end", "job_step", "job_signal")
    ]
    assert node.column(CHECKS, tables) == []


def test_a_taken_signal_stays_only_for_its_key(node: Master) -> None:
    """Those without a key are deleted when a step takes them."""
    node.enqueue({})
    (chunk, *_) = node.claim(1)
    for key in ("k", None):
        node.value("select txqueue.signal(%s, 'more', null, %s)", chunk.ids[0], key)
    step = {
        "job_id": chunk.ids[0],
        "assignment": chunk.assignment,
        "kind": "signal",
        "signal": "more",
    }
    for name in ("b", "c"):
        node.value(
            "select value from txqueue.write_steps(%s, %s)",
            node.incarnation,
            json.dumps([{**step, "name": name}]),
        )
    assert node.column("select key from txqueue.job_signal where name = 'more'") == ["k"]


def test_all_that_wait_are_woken_at_once(node: Master) -> None:
    """Each job is looked up, locked and moved once."""
    waiting(node, "signal", 1000)
    assert pages(node, SIGNAL) < 12_500
    assert pages(node, PROPAGATE) < 33_000
    assert node.states() == {"ready": 1000}
