"""A schedule whose condition cannot be evaluated because its table is locked."""

from __future__ import annotations

import json
from typing import Any, Final

from txqueue.model.schedule import Every, schedule_object
from txqueue.store.reads.schedule_list import about_schedules
from txqueue_torture.environment import Testbed
from txqueue_torture.scenario import scenario
from txqueue_torture.unnoted import UNNOTED

__all__ = ["condition_hangs"]

APP: Final = ("txqueue_torture.unnoted",)
HELD_FOR: Final = 8.0
# Jobs that a schedule of every second must enqueue while the table of another one is locked.
LEAST_RUNS: Final = 5
_TABLE: Final = "create table if not exists {schema}.torture_condition (id integer primary key)"
_PUT: Final = """
    select {schema}.put_schedule(
        its_name => %s, terms => %s, its_job => %s, condition => %s, who => 'torture')"""


@scenario("condition_hangs", "the table of a schedule's condition is locked for long")
def condition_hangs(testbed: Testbed) -> None:
    """Lock a condition's table: only that schedule waits; it reports why, and recovers later."""
    testbed.database.rows(_TABLE.format(schema=testbed.schema))
    table = f"{testbed.schema}.torture_condition"
    testbed.database.rows(f"insert into {table} values (1) on conflict do nothing")
    _put(testbed, "hangs", {"table": table, "column": "id", "value": "1"})
    _put(testbed, "free", None)
    testbed.start_node("n1", app=APP).wait_up()
    testbed.start_client(rate=20, kinds=("noop", "grouped:0.1"))
    for name in ("hangs", "free"):
        testbed.wait(lambda name=name: _schedule(testbed, name)["enqueued"] > 1, f"{name} runs")
    with (
        testbed.fault("hold table", snapshot=False) as fault,
        testbed.database.session() as session,
    ):
        session.rows("begin")
        session.rows(f"lock table {table} in access exclusive mode")
        before = _schedule(testbed, "free")["enqueued"]
        testbed.rest(HELD_FOR)
        runs = _schedule(testbed, "free")["enqueued"] - before
        error = _schedule(testbed, "hangs")["error"]
        session.rows("rollback")
        fault.evidence = f"{table} was locked for {HELD_FOR:g} s: {error}" if error else ""
    testbed.figure("runs_meanwhile", runs)
    testbed.expect(runs >= LEAST_RUNS, f"the other schedule runs on, but only {runs} times")
    last = _schedule(testbed, "hangs")["enqueued"]
    testbed.wait(lambda: _schedule(testbed, "hangs")["enqueued"] > last + 1, "it runs again", 60.0)
    for name in ("hangs", "free"):
        testbed.database.rows(f"select {testbed.schema}.remove_schedule(%s, 'torture')", (name,))
    testbed.drain()


def _put(testbed: Testbed, name: str, condition: dict[str, str] | None) -> None:
    job = json.dumps({"work_type": UNNOTED, "payload": {}})
    condition_text = None if condition is None else json.dumps(condition)
    call = _PUT.format(schema=testbed.schema)
    testbed.database.rows(call, (name, json.dumps(schedule_object(Every(1))), job, condition_text))


def _schedule(testbed: Testbed, name: str) -> dict[str, Any]:
    with testbed.database.session() as session:
        rows = session.find(about_schedules(testbed.schema, {}, 10))
    return next(row for row in rows if row["name"] == name)
