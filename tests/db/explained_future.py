"""What modelled nodes do with the jobs of a queue: they claim, and end what they hold."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import psycopg2

from tests.db.conftest import EMPTY
from tests.db.explained_nodes import ModelledNode
from tests.db.stored import Stored
from txqueue.model.assignment import Assignment, read_chunk
from txqueue.policy.endings.outcome import KEYLESS
from txqueue.policy.placement.room import Room

__all__ = [
    "LATER",
    "Session",
    "beat",
    "claimed",
    "claimed_until_quiet",
    "complete",
    "let_all_end",
]

# So often claims take nothing before a job that should be claimed is known not to be. A tenant has
# a turn in every third claim with room for one job, by chance.
MOST_EMPTY: Final = 60
# So often time passes before nothing is known to change by it.
MOST_ROUNDS: Final = 2
_SEQUENCES: Final = (
    *("asleep", "lane", "has_tenants", "has_late_ends", "has_limits", "open_credit"),
)
_PREPARED: Final = """
    prepare held as
        select lane, assignment, incarnation, array_agg(job_id) from txqueue.job_assigned
         group by lane, assignment, incarnation order by assignment;
    prepare live as
        select job_id from txqueue.job
         where state in ('waiting', 'ready', 'assigned') order by job_id;
    prepare due as
        select exists (select from txqueue.job_waiting
                        where waiting_for in ('time', 'rate') and not_before <= clock_timestamp())
            or coalesce(pg_sequence_last_value('txqueue.has_late_ends'), 0) = 1;
    prepare ready as select distinct queue, work_type from txqueue.job_ready;
    prepare buckets as
        select format('bucket_%s', control_id) from txqueue.control where rate is not null
"""
LATER: Final = """
    update txqueue.job_waiting set not_before = clock_timestamp() - interval '1 second'
     where waiting_for in ('time', 'rate') and (options ? 'no_key') is not true
       and isfinite(not_before) and not_before > clock_timestamp()
"""


# Each node has kept its lease for so long that it may rescue others.
_KEPT: Final = "update txqueue.node_info set leased_at = 'epoch' where leased_at > 'epoch'"

Held: TypeAlias = tuple[int, int, int, list[int]]
"""An assignment: its lane, number and incarnation, and its jobs."""


class Session(Stored):
    """The connection of all nodes, applications and operators."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.cursor.execute(EMPTY)
        self.cursor.execute(_PREPARED)
        self._dsn = dsn
        self._others: list[Any] = []

    def beside(self) -> Any:
        """Open a transaction of another session, which stays open; return its cursor."""
        other = psycopg2.connect(self._dsn)
        self._others.append(other)
        return other.cursor()

    def held(self) -> list[Held]:
        """Return the lane, number, incarnation and jobs of each assignment."""
        self.cursor.execute("execute held")
        return self.cursor.fetchall()

    def ready(self) -> set[tuple[str, str]]:
        """The queues and types of ready jobs."""
        self.cursor.execute("execute ready")
        return set(self.cursor.fetchall())

    def live(self) -> list[int]:
        """The numbers of the jobs that have not ended."""
        return self.column("execute live")

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
        return self.column("execute buckets")

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
        " from txqueue.next_job(%s, %s, %s, %s, %s, %s, %s, 1000, %s, null, %s, ahead => %s)"
        " where assignment is not null",
        (
            *(node.node_id, node.incarnation, node.queues, node.work_types),
            *(room.free, room.largest, room.capacity, room.workers, node.workers.takes_suspects),
            room.ahead,
        ),
    )
    taken = session.cursor.fetchall()
    for lane, number, jobs, weight, chunk, alone in taken:
        given = Assignment(node.incarnation, number, lane, jobs, weight, chunk, alone)
        node.perform(given)
    ids = [job.job_id for *_, chunk, _ in taken for job in read_chunk(chunk)]
    if taken:
        _leave_locked(session, node, [number for _, number, *_ in taken])
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
    rest = deque(node for node in nodes if node.state == "alive")
    ready = None if session.value("execute due") else session.ready()
    empty = 0
    while empty < len(rest) * (MOST_EMPTY if expected - found else 1):
        taken = claimed(session, rest[0]) if rest[0].may_take(ready) else ()
        found.update(taken)
        if taken:
            ready = session.ready()
        empty = 0 if taken else empty + 1
        rest.rotate(-1)
    return found


def complete(session: Session, incarnation: int, held: Sequence[Held]) -> None:
    """Complete some assignments of one node."""
    lanes, numbers, _, ids = zip(*held, strict=True)
    session.value(
        "select total from txqueue.complete(%s, %s::smallint[], %s::bigint[], %s::text[])",
        *(incarnation, list(lanes), list(numbers)),
        [f"{{{','.join(map(str, each))}}}" for each in ids],
    )


def let_all_end(session: Session, nodes: Sequence[ModelledNode], expected: set[int]) -> set[int]:
    """Let running jobs end, and then time pass, until nothing changes; return what is left."""
    rounds = 0
    while True:
        has_ended = _end_running(session, nodes)
        is_new = not has_ended and _time_passes(session, nodes)
        taken = claimed_until_quiet(session, nodes, set())
        rounds += not has_ended
        if taken or has_ended or is_new or rounds < MOST_ROUNDS:
            continue
        left = set(session.live())
        if not expected & left or not claimed_until_quiet(session, nodes, expected & left):
            return left


def _time_passes(session: Session, nodes: Sequence[ModelledNode]) -> bool:
    """Let jobs be due, workers be started, rates be paid, and a node renew its lease, and rescue.

    Returns:
        Whether any job was not due.
    """
    session.cursor.execute(_KEPT)
    for node in nodes[:1]:
        beat(session, node)
    for worker in (each for node in nodes for each in node.each):
        worker.rate = 0.0
        if not worker.is_ready:
            worker.becomes("open")
    for name in session.buckets():
        session.value("select setval(%s, 1)", f"txqueue.{name}")
    session.cursor.execute("delete from txqueue.spent_rate")
    session.cursor.execute("update txqueue.control set held_until = null")
    session.cursor.execute(LATER)
    return session.cursor.rowcount > 0


def _end_running(session: Session, nodes: Sequence[ModelledNode]) -> bool:
    """Complete what the workers hold that are able to; return whether they held any."""
    able = {
        (node.incarnation, number): node
        for node in nodes
        for worker in node.each
        if worker.is_able
        for number in worker.held
    }
    ended = [held for held in session.held() if (held[2], held[1]) in able] if able else []
    for incarnation in {held[2] for held in ended}:
        complete(session, incarnation, [held for held in ended if held[2] == incarnation])
    for _, number, incarnation, _ in ended:
        able[incarnation, number].finished(number)
    return bool(ended)
