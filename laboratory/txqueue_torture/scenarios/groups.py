"""The death of a node that holds very many groups."""

from __future__ import annotations

import time
from typing import Final

from txqueue_torture.environment import Testbed
from txqueue_torture.scenario import scenario
from txqueue_torture.unnoted import UNNOTED

__all__ = ["groups_and_death"]

GROUPS: Final = 12_000
APP: Final = ("txqueue_torture.unnoted",)
# Seconds in which fewer jobs must be left: a slow machine may take long, a stalled node may not.
PROGRESS_WITHIN: Final = 30.0
_ENQUEUE: Final = """
    select {schema}.enqueue_many(jsonb_agg(jsonb_build_object(
        'work_type', '{work_type}', 'group', 'g' || number, 'payload', '{{"on": "n1"}}'::jsonb)))
      from generate_series(1, %s) as number"""
_ASSIGNED: Final = "select count(*) from {schema}.job_assigned where work_type = '{work_type}'"


@scenario("groups_and_death", "a node dies that holds 12,000 jobs of as many groups")
def groups_and_death(testbed: Testbed) -> None:
    """Kill a node with 12,000 groups: the other rescues them in parts and keeps its lease."""
    wanted = int(GROUPS * testbed.scale)
    other = testbed.start_node("n2", app=APP)
    dead = testbed.start_node("n1", capacity=wanted, app=APP)
    for node in (other, dead):
        node.wait_up()
    with testbed.database.session() as session:
        # The jobs that the other node claims first are done at once.
        session.rows(_ENQUEUE.format(schema=testbed.schema, work_type=UNNOTED), (wanted,))
    query = _ASSIGNED.format(schema=testbed.schema, work_type=UNNOTED)
    testbed.wait(
        lambda: testbed.database.value(query) == testbed.database.live_jobs(), "all are taken"
    )
    testbed.start_client(rate=20, kinds=("noop", "grouped:0.1"))
    testbed.flow()
    with testbed.fault("kill node", nodes=[dead], still=True, snapshot=False) as fault:
        lost = int(testbed.database.value(query))
        fault.pids = dead.kill()
        fault.evidence = f"{dead.name} died with {lost} jobs" if lost > wanted // 2 else ""
    began = time.monotonic()
    left = _left(testbed)
    while left:
        testbed.wait(
            lambda most=left: _left(testbed) < most,
            f"fewer than {left} of the {lost} jobs are left",
            PROGRESS_WITHIN,
            0.5,
        )
        left = _left(testbed)
    testbed.figure("lost", lost)
    testbed.figure("rescued_seconds", round(time.monotonic() - began, 1))
    testbed.flow()
    testbed.drain()
    testbed.expect("registering anew" not in other.log, "the other node keeps its lease")


def _left(testbed: Testbed) -> int:
    sql = f"select count(*) from {testbed.schema}.job where work_type = %s and state <> 'done'"
    return int(testbed.database.value(sql, (UNNOTED,)))
