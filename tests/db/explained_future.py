"""What modelled nodes do with the jobs of a queue: they claim, and end what they hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg2

from tests.db.conftest import EMPTY
from tests.db.explained_nodes import ModelledNode
from tests.db.stored import Stored
from txqueue.model.assignment import Assignment
from txqueue.policy.endings.outcome import KEYLESS
from txqueue.policy.placement.dispatch import Room

__all__ = [
    "HELD",
    "LATER",
    "Session",
    "beat",
    "claimed",
    "claimed_until_quiet",
    "complete",
    "let_all_end",
]

# So often claims take nothing before a job that should be claimed is known not to be.
MOST_EMPTY: Final = 20
_SEQUENCES: Final = (
    *("asleep", "lane", "has_tenants", "has_late_ends", "has_limits", "open_credit"),
)
HELD: Final = """
    select lane, assignment, incarnation, array_agg(job_id) from txqueue.job_assigned
     group by lane, assignment, incarnation
"""
LATER: Final = """
    update txqueue.job_waiting set not_before = clock_timestamp() - interval '1 second'
     where waiting_for in ('time', 'rate') and (options ? 'no_key') is not true
       and isfinite(not_before) and not_before > clock_timestamp()
"""
LIVE: Final = ("waiting", "ready", "assigned")


class Session(Stored):
    """The connection of all nodes, applications and operators."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.cursor.execute(EMPTY)
        self._dsn = dsn
        self._others: list[Any] = []

    def beside(self) -> Any:
        """Open a transaction of another session, which stays open; return its cursor."""
        other = psycopg2.connect(self._dsn)
        self._others.append(other)
        return other.cursor()

    def registered(
        self, name: str, queues: list[str], work_types: Sequence[Mapping[str, Any]], capacity: int
    ) -> tuple[int, int]:
        """Register a run of a node."""
        self.cursor.execute(
            "select node_id, incarnation from txqueue.register_node"
            "(%s, 'host', 1, null, 3600, %s, %s, %s, '', null)",
            (name, capacity, queues, json.dumps(list(work_types))),
        )
        ((node_id, incarnation),) = self.cursor.fetchall()
        return node_id, incarnation

    def buckets(self) -> list[str]:
        """The sequences of the rates."""
        sql = "select format('bucket_%s', control_id) from txqueue.control where rate is not null"
        return self.column(sql)

    def sequences(self) -> dict[str, tuple[int, bool]]:
        """The values that a rollback does not restore."""
        parts = (
            f"select '{name}', last_value, is_called from txqueue.{name}"
            for name in (*_SEQUENCES, *self.buckets())
        )
        self.cursor.execute(" union all ".join(parts))
        return {name: (value, is_called) for name, value, is_called in self.cursor.fetchall()}

    def restore(self, sequences: Mapping[str, tuple[int, bool]]) -> None:
        """Set the values again."""
        calls = ", ".join(["setval(%s, %s, %s)"] * len(sequences))
        given = (
            each
            for name, (value, is_called) in sequences.items()
            for each in (f"txqueue.{name}", value, is_called)
        )
        self.value(f"select {calls}", *given)


def beat(session: Session, node: ModelledNode) -> bool:
    sql = "select owned from txqueue.heartbeat(%s, %s, %s)"
    return bool(session.value(sql, node.incarnation, node.workers.load, json.dumps(node.report())))


def claimed(session: Session, node: ModelledNode, room: Room | None = None) -> list[int]:
    """Claim once for a node; return the numbers of the jobs.

    A claim without room only makes ready what is due, and what has no parents left.
    """
    room = room or node.workers.room
    session.cursor.execute(
        "select lane, assignment, jobs, weight, chunk, alone"
        " from txqueue.next_job(%s, %s, %s, %s, %s, %s, %s, 1000, %s, null, %s)"
        " where assignment is not null",
        (
            *(node.node_id, node.incarnation, node.queues, node.work_types),
            *(room.free, room.largest, room.capacity, room.workers, node.workers.takes_suspects),
        ),
    )
    taken = session.cursor.fetchall()
    for lane, number, jobs, weight, chunk, alone in taken:
        given = Assignment(node.incarnation, number, lane, jobs, weight, chunk, alone)
        node.perform(given)
    numbers = [number for _, number, *_ in taken]
    sql = "select job_id from txqueue.job_assigned where assignment = any (%s)"
    ids = session.column(sql, numbers) if numbers else []
    _leave_locked(session, node, numbers)
    returned, node.returned.numbers = node.returned.numbers, []
    for number in returned:
        sql = "select txqueue.release(%s, %s::bigint[], false)"
        session.value(sql, node.incarnation, [number])
    return ids


def _leave_locked(session: Session, node: ModelledNode, numbers: Sequence[int]) -> None:
    """Return what no node can decrypt, each the only job of its assignment."""
    session.cursor.execute(
        "select job_id, assignment from txqueue.job_assigned where assignment = any (%s)"
        " and payload ->> 'key' = 'lost'",
        (list(numbers),),
    )
    for job_id, number in session.cursor.fetchall():
        outcome = {"job_id": job_id, "assignment": number, "outcome": "snooze", "delay": 60.0}
        outcome |= {"error": "no key", "error_class": KEYLESS}
        sql = "select settled from txqueue.settle(%s, %s)"
        session.value(sql, node.incarnation, json.dumps([outcome]))
        node.finished(number)


def claimed_until_quiet(
    session: Session, nodes: Sequence[ModelledNode], expected: set[int]
) -> set[int]:
    """Claim for all nodes until claims take nothing, again while expected jobs are left."""
    found: set[int] = set()
    empty = 0
    while empty < (MOST_EMPTY if expected - found else 1):
        open_ = [node for node in nodes if node.state == "alive" and node.workers.room.free]
        taken = {job_id for node in open_ for job_id in claimed(session, node)}
        found |= taken
        empty = 0 if taken else empty + 1
        if not open_:
            break
    return found


def complete(
    session: Session, lane: int, number: int, incarnation: int, ids: Sequence[int]
) -> None:
    session.value(
        "select total from txqueue.complete(%s, %s::smallint[], %s::bigint[], %s::text[])",
        *(incarnation, [lane], [number], [f"{{{','.join(map(str, ids))}}}"]),
    )


def let_all_end(session: Session, nodes: Sequence[ModelledNode], expected: set[int]) -> set[int]:
    """Let running jobs end, and then time pass, until nothing changes; return what has ended."""
    is_later = False
    while True:
        ended = _end_running(session, nodes)
        if not ended:
            for node in nodes:
                beat(session, node)
        taken = claimed_until_quiet(session, nodes, set())
        if taken or ended:
            continue
        if _time_passes(session, nodes) or not is_later:
            is_later = True
            continue
        left = session.column("select job_id from txqueue.job where state in %s", LIVE)
        if not claimed_until_quiet(session, nodes, expected & set(left)):
            sql = "select job_id from txqueue.job where state not in %s"
            return set(session.column(sql, LIVE))


def _time_passes(session: Session, nodes: Sequence[ModelledNode]) -> bool:
    """Let jobs be due, workers be started and rates be paid; return whether any job was not due."""
    for worker in (each for node in nodes for each in node.each if not each.is_ready):
        worker.becomes("open")
    for name in session.buckets():
        session.value("select setval(%s, 1)", f"txqueue.{name}")
    session.cursor.execute(LATER)
    return session.cursor.rowcount > 0


def _end_running(session: Session, nodes: Sequence[ModelledNode]) -> set[int]:
    """Complete what the workers hold that are able to."""
    ended: set[int] = set()
    session.cursor.execute(HELD)
    for lane, number, incarnation, ids in session.cursor.fetchall():
        for node in nodes:
            holders = [each for each in node.each if number in each.held]
            if node.incarnation == incarnation and any(each.is_able for each in holders):
                complete(session, lane, number, incarnation, ids)
                node.finished(number)
                ended |= set(ids)
    return ended
