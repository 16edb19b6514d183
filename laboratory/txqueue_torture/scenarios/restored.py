"""The database is set back to an earlier state while nodes run jobs that it then lacks."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Final

from txqueue_torture.environment import Testbed
from txqueue_torture.gated import GATED, ends_of, has_begun, open_gate
from txqueue_torture.node import until
from txqueue_torture.scenario import scenario
from txqueue_torture.server import Server, dsn_of, lagging_standby_of, short_folder

__all__ = ["lagging_standby", "restored_dump"]

APP: Final = ("txqueue_torture.gated",)
JOBS: Final = 6
# Seconds: a fourth is the time between two heartbeats, in which all must happen.
LEASE: Final = 48.0
# Of a weight that open credit does not assign.
_ENQUEUE = "select {schema}.enqueue(%s, %s, weight => 2)"
_NODE = "select incarnation, heartbeat_at from {schema}.node_info where name = 'n1'"
_DONE = """select payload ->> 'label', extract(epoch from finished_at)::float8
    from {schema}.job_done where work_type = %s"""


@scenario(
    "restored_dump", "the database is restored from a dump under a running node", own_server=True
)
def restored_dump(testbed: Testbed) -> None:
    """Restore a dump: no completion of a lost job ends the job that has its number now."""
    server = testbed.enter(Server(testbed.enter(short_folder()) / "a"))
    testbed.use(server.dsn)
    _start_node(testbed)
    dump = str(server.data / "dump.sql")
    server.run("pg_dump", "--schema", testbed.schema, "--file", dump, server.dsn)
    # A heartbeat, at least, is lost.
    _wait_for_beat(testbed)

    def restore() -> str:
        drop = f"drop schema {testbed.schema} cascade"
        words = ["--single-transaction", "--set", "ON_ERROR_STOP=1", "--command", drop]
        server.run("psql", *words, "--file", dump, server.dsn)
        return "restored the schema"

    _set_back(testbed, restore)


@scenario(
    "lagging_standby",
    "primary killed, a standby that lacks the last seconds promoted",
    own_server=True,
)
def lagging_standby(testbed: Testbed) -> None:
    """Promote a standby that lags: no completion of a lost job ends another one."""
    folder = testbed.enter(short_folder())
    primary = testbed.enter(Server(folder / "a"))
    standby = Server(folder / "b")
    testbed.use(dsn_of(primary.address, standby.address, attributes="read-write"))
    _start_node(testbed)
    _wait_for_beat(testbed)
    testbed.enter(lagging_standby_of(primary, standby))

    def fail_over() -> str:
        killed = primary.kill()
        with standby.session() as session:
            session.rows("select pg_promote()")
        testbed.database.close()
        return f"killed primary {killed}, promoted {standby.postmaster}"

    _set_back(testbed, fail_over)


def _start_node(testbed: Testbed) -> None:
    testbed.start_node("n1", lease=LEASE, capacity=4 * JOBS, app=APP).wait_up()


def _wait_for_beat(testbed: Testbed) -> None:
    question = _NODE.format(schema=testbed.schema)
    before = testbed.database.rows(question)
    testbed.wait(lambda: testbed.database.rows(question) != before, "a heartbeat", every=0.02)


def _set_back(testbed: Testbed, act: Callable[[], str]) -> None:
    """Set the database back while jobs run, and end these while others have their numbers."""
    former = _incarnation(testbed)
    _enqueue_each(testbed, "lost")
    with testbed.fault("database set back", snapshot=False) as fault:
        fault.evidence = act()
    _enqueue_each(testbed, "new")
    open_gate(testbed.folder, "lost")
    testbed.wait(lambda: _all_ended(testbed, "lost"), "the lost jobs end")
    is_anew = until(lambda: _incarnation(testbed) != former, LEASE / 2)
    testbed.expect(is_anew, "the node registers anew with one of the next two heartbeats")
    open_gate(testbed.folder, "new")
    testbed.drain()
    _expect_runs(testbed)


def _enqueue_each(testbed: Testbed, name: str) -> None:
    """Enqueue jobs one by one, each once the one before has begun: one assignment a job."""
    statement = _ENQUEUE.format(schema=testbed.schema)
    for number in range(JOBS):
        label = f"{name}{number}"
        # The last of them outlives the others: a node that holds nothing lost has nothing to drop.
        gate = "new" if number == JOBS - 1 else name
        testbed.database.rows(statement, (GATED, json.dumps({"label": label, "gate": gate})))
        testbed.wait(partial(has_begun, testbed.folder, label), f"{label} begins", every=0.01)


def _all_ended(testbed: Testbed, name: str) -> bool:
    return all(any(ends_of(testbed.folder, f"{name}{number}")) for number in range(JOBS - 1))


def _incarnation(testbed: Testbed) -> int:
    return int(testbed.database.value(_NODE.format(schema=testbed.schema)))


def _expect_runs(testbed: Testbed) -> None:
    done = testbed.database.rows(_DONE.format(schema=testbed.schema), (GATED,))
    testbed.expect(len(done) == JOBS, f"all {JOBS} jobs are done, not {len(done)}")
    for label, finished_at in done:
        was_run = any(ended <= finished_at for ended in ends_of(testbed.folder, label))
        testbed.expect(was_run, f"{label} is done after a run of its own")
