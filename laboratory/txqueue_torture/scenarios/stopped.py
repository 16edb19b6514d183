"""Backends stopped in the middle of a statement until their clients have given up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from txqueue_torture.environment import Testbed
from txqueue_torture.freezing import frozen
from txqueue_torture.scenario import scenario
from txqueue_torture.server import Server, short_folder

__all__ = ["backend_stopped"]

# A master gives a statement up after ten seconds.
STOPPED_FOR: Final = 11.5
# The statement to stop, the application name of its backend, and the table whose lock delays it.
STOPPED: Final = (
    ("claim", "txqueue n%", "claiming", "exclusive"),
    ("completion", "txqueue n%", "job_done", "share"),
    ("heartbeat", "txqueue n%", "node_info", "share"),
    ("enqueue", "txqueue client", "job_ready", "share"),
)
_WAITING: Final = """
    select waiter.pid from pg_locks as lock join pg_stat_activity as waiter using (pid)
     where not lock.granted and waiter.application_name like %s
       and lock.relation in (select %s::regclass union select relid from pg_partition_tree(%s))
     limit 1"""
# The most backends of nodes: for masters, their listeners, and statements that they have given up.
MOST_BACKENDS: Final = 8


@scenario(
    "backend_stopped",
    "a backend is stopped in a claim, a completion, a heartbeat and an enqueue, past timeouts",
    own_server=True,
)
def backend_stopped(testbed: Testbed) -> None:
    """Stop backends past timeouts: their late writes are undone or repaired after they resume."""
    testbed.use(testbed.enter(Server(testbed.enter(short_folder()) / "pg")).dsn)
    nodes = [testbed.start_node("n1"), testbed.start_node("n2")]
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=20, kinds=("noop", "slow:0.2", "grouped:0.1", "noop"))
    testbed.flow()
    for what, whose, table, mode in STOPPED:
        with testbed.fault(f"stop backend in {what}", snapshot=False) as fault:
            with _caught(testbed, whose, table, mode) as backend, frozen([backend]) as still:
                testbed.rest(STOPPED_FOR)
            if still:
                fault.evidence = f"backend {backend} stood still for {STOPPED_FOR} s in its {what}"
        testbed.flow()
    backends = "select count(*) from pg_stat_activity where application_name like 'txqueue n_'"
    most = max(int(testbed.database.value(backends)), 0)
    testbed.figure("backends", most)
    testbed.expect(most <= MOST_BACKENDS, f"no backend is left behind, but there are {most}")
    testbed.drain()


@contextmanager
def _caught(testbed: Testbed, whose: str, table: str, mode: str) -> Iterator[int]:
    """Yield a stopped backend, which waited for a lock that is released after the stop."""
    name = f"{testbed.schema}.{table}"
    with testbed.database.session() as session:
        session.rows("begin")
        session.rows(f"lock table {name} in {mode} mode")
        rows: list[tuple[int]] = []

        def is_caught() -> bool:
            rows[:] = testbed.database.rows(_WAITING, (whose, name, name))
            return bool(rows)

        testbed.wait(is_caught, f"a backend of {whose} waits for {table}")
        with frozen([rows[0][0]]):
            session.rows("rollback")
            yield rows[0][0]
