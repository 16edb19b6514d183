"""The death of a node that holds very many groups."""

from __future__ import annotations

import time
from typing import Final

from txqueue.torture.environment import Ground
from txqueue.torture.scenario import scenario
from txqueue.torture.unnoted import UNNOTED

__all__ = ["groups_and_death"]

GROUPS: Final = 20_000
APP: Final = ("txqueue.torture.unnoted",)
# A generous limit: the slowest machine so far needs a fifth of it.
RESCUED_WITHIN: Final = 90.0
_ENQUEUE: Final = """
    select {schema}.enqueue_many(jsonb_agg(jsonb_build_object(
        'work_type', '{work_type}', 'group', 'g' || number, 'payload', '{{"on": "n1"}}'::jsonb)))
      from generate_series(1, %s) as number"""
_ASSIGNED: Final = "select count(*) from {schema}.job_assigned where work_type = '{work_type}'"


@scenario("groups_and_death", "a node dies that holds 20,000 jobs of as many groups")
def groups_and_death(ground: Ground) -> None:
    """They are rescued in parts: the other node keeps its lease, and its own jobs run."""
    wanted = int(GROUPS * ground.scale)
    other = ground.start_node("n2", app=APP)
    dead = ground.start_node("n1", capacity=wanted, app=APP)
    for node in (other, dead):
        node.wait_up()
    with ground.database.session() as session:
        # The jobs that the other node claims first are done at once.
        session.rows(_ENQUEUE.format(schema=ground.schema, work_type=UNNOTED), (wanted,))
    held = _ASSIGNED.format(schema=ground.schema, work_type=UNNOTED)
    ground.wait(lambda: ground.database.value(held) == ground.database.live_jobs(), "all are taken")
    ground.start_client(rate=20, kinds=("noop", "grouped:0.1"))
    ground.flow()
    with ground.fault("kill node", nodes=[dead], still=True, snapshot=False) as fault:
        lost = int(ground.database.value(held))
        fault.pids = dead.kill()
        fault.evidence = f"{dead.name} died with {lost} jobs" if lost > wanted // 2 else ""
    began = time.monotonic()
    ground.wait(
        lambda: not ground.database.value(held) and not _left(ground),
        "all are rescued and done",
        RESCUED_WITHIN * ground.scale,
        0.5,
    )
    ground.figure("lost", lost)
    ground.figure("rescued_seconds", round(time.monotonic() - began, 1))
    ground.flow()
    ground.drain()
    ground.expect("registering anew" not in other.log, "the other node keeps its lease")


def _left(ground: Ground) -> int:
    sql = f"select count(*) from {ground.schema}.job where work_type = %s and state <> 'done'"
    return int(ground.database.value(sql, (UNNOTED,)))
