"""Long locks of other sessions: on tables that all nodes use, and on a single job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from txqueue.store.inquiries.reader import Session
from txqueue_torture.demands import no_duplicates
from txqueue_torture.environment import Testbed
from txqueue_torture.node import TortureNode
from txqueue_torture.scenario import scenario

__all__ = ["completion_uncommitted", "locks_held"]

# Seconds, longer than a master's lock timeout and than two leases.
HELD_FOR: Final = 7.0
# Locks such as those of `create index`, of an application's migration, and of an operator's
# transaction.
LOCKS: Final = (
    "lock table {schema}.job_assigned in share mode",
    "lock table {schema}.claiming in exclusive mode",
    "select {schema}.pause('queue', 'nothing of this', 'torture')",
)
_WAITING: Final = """
    select count(*) from pg_locks as lock join pg_stat_activity as waiter using (pid)
     where not lock.granted and waiter.application_name like 'txqueue n_'"""
# Of all jobs that run at this moment, as a session that looks at them may take them.
_ROWS: Final = "select from {schema}.job_assigned for share"
_LOCKED: Final = "select count(*) from {schema}.job_assigned where xmax <> '0'"
_DONE: Final = "select count(*) from {schema}.job_done"
ENDS: Final = 50
HELD: Final = 4
_RUNNING: Final = """
    select incarnation, assignment, job_id from {schema}.job_assigned
     where work_type = 'txqueue_torture.lingering'
     order by job_id limit 1"""
_COMPLETE: Final = "select {schema}.complete_one(%s, %s, %s, null)"


@scenario(
    "locks_held", "other sessions hold locks that claims and completions need, past the timeout"
)
def locks_held(testbed: Testbed) -> None:
    """Hold locks that nodes need: nodes keep their leases, and continue after the release."""
    nodes = [testbed.start_node("n1"), testbed.start_node("n2")]
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=20, kinds=("noop", "slow:0.2", "grouped:0.1"))
    for sql in LOCKS:
        testbed.flow()
        with testbed.fault("hold lock", snapshot=False) as fault:
            with _open_transaction(testbed, sql):
                testbed.wait(lambda: _waiting(testbed), "a node waits for the lock")
                testbed.rest(HELD_FOR)
            fault.evidence = f"a node waited for {HELD_FOR:g} s: {sql}"
    _lock_running(testbed)
    testbed.flow()
    lost = [node.name for node in nodes if "registering anew" in node.log]
    testbed.expect(not lost, f"all keep their leases, but not {lost}")
    testbed.drain()
    no_duplicates(testbed)


def _lock_running(testbed: Testbed) -> None:
    """Lock the rows of the running jobs: others end meanwhile."""
    with testbed.fault("lock rows", snapshot=False) as fault, _open_transaction(testbed, _ROWS):
        locked, before = _count(testbed, _LOCKED), _count(testbed, _DONE)
        testbed.wait(
            lambda: _count(testbed, _DONE) >= before + ENDS, "other jobs end", 4 * HELD_FOR
        )
        if locked and _count(testbed, _LOCKED) >= locked:
            fault.evidence = f"the rows of {locked} jobs were locked while {ENDS} others ended"


def _count(testbed: Testbed, sql: str) -> int:
    return int(testbed.database.value(sql.format(schema=testbed.schema)))


@scenario(
    "completion_uncommitted", "a node dies while one of its jobs is completed and not committed"
)
def completion_uncommitted(testbed: Testbed) -> None:
    """Kill a node with an uncommitted completion: its other jobs run elsewhere without waiting.

    The job of that completion runs again after the transaction has ended.
    """
    other = testbed.start_node("n2").wait_up()
    testbed.database.rows(f"select {testbed.schema}.drain_node('n2', 'torture')")
    kinds = ["lingering:n1"] * HELD
    testbed.start_client(rate=100, kinds=kinds, count=len(kinds)).wait()
    node = testbed.start_node("n1", workers=1, capacity=HELD).wait_up()
    testbed.wait(lambda: len(testbed.history().runs) == HELD, "all of them run", every=0.3)
    with testbed.database.session() as session:
        session.rows("begin")
        token = session.rows(_RUNNING.format(schema=testbed.schema))[0]
        session.rows(_COMPLETE.format(schema=testbed.schema), token)
        _kill(testbed, node)
        testbed.database.rows(f"select {testbed.schema}.undrain_node('n2', 'torture')")
        began = time.monotonic()
        testbed.wait(
            lambda: testbed.database.live_jobs() == 1, "the others are done elsewhere", 20.0
        )
        testbed.figure("others_done_seconds", round(time.monotonic() - began, 1))
        session.rows("rollback")
    testbed.drain()
    testbed.expect("registering anew" not in other.log, "the other node keeps its lease")


def _kill(testbed: Testbed, node: TortureNode) -> None:
    with testbed.fault("kill node", nodes=[node], still=True) as fault:
        fault.pids = node.kill()
        fault.evidence = f"{node.name} is gone with {len(fault.pids)} processes"


@contextmanager
def _open_transaction(testbed: Testbed, sql: str) -> Iterator[Session]:
    with testbed.database.session() as session:
        session.rows("begin")
        session.rows(sql.format(schema=testbed.schema))
        yield session
        session.rows("rollback")


def _waiting(testbed: Testbed) -> bool:
    return bool(testbed.database.value(_WAITING))
