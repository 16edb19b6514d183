"""The stored functions called as a client and as a master call them, over one connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2.extras
from attrs import frozen

from tests.db.kept_sessions import leave_session, take_session
from txqueue.model.assignment import AssignedJob, read_chunk

__all__ = ["Stored", "Taken", "stored"]

KIND = {"work_type": "test.kind", "queue": "default", "priority": 4, "weight": 1}


@frozen
class Taken:
    """A chunk as `next_job()` returned it."""

    lane: int
    assignment: int
    jobs: list[AssignedJob]

    @property
    def ids(self) -> list[int]:
        """The numbers of its jobs."""
        return [job.job_id for job in self.jobs]


class Stored:
    """One session of the database.

    Args:
        dsn: A database with the schema.
        node: The name of the node that it is registered as, in an incarnation of its own.
    """

    def __init__(self, dsn: str, node: str = "node") -> None:
        self.connection = take_session(dsn)
        self.cursor = self.connection.cursor()
        self.node_id, self.incarnation = self.register(node)

    def close(self) -> None:
        """End what it does, as if its connection had closed."""
        leave_session(self.connection)

    def value(self, sql: str, *parameters: object) -> Any:
        """Run a statement; returns the first column of its first row."""
        self.cursor.execute(sql, parameters or None)
        return self.cursor.fetchall()[0][0]

    def column(self, sql: str, *parameters: object) -> list[Any]:
        """Run a statement; returns its first column."""
        self.cursor.execute(sql, parameters or None)
        return [row[0] for row in self.cursor.fetchall()]

    def register(self, name: str) -> tuple[int, int]:
        """Register a run of a node that knows the kind of the tests."""
        self.cursor.execute(
            "select node_id, incarnation from txqueue.register_node"
            "(%s, 'host', 1, null, 10, 100, '{default}', %s, '', null)",
            (name, json.dumps([KIND])),
        )
        ((node_id, incarnation),) = self.cursor.fetchall()
        return node_id, incarnation

    def enqueue(self, *jobs: dict[str, Any]) -> list[int]:
        """Enqueue jobs of the kind of the tests; returns their numbers."""
        whole = [{"work_type": "test.kind", "payload": {}, **job} for job in jobs]
        ids: list[int] = self.value("select txqueue.enqueue_many(%s)", json.dumps(whole))
        return ids

    def claim(
        self, weight: int = 1000, *, largest: int | None = None, workers: int = 1
    ) -> list[Taken]:
        """Take jobs as a master does."""
        self.cursor.execute(
            "select lane, assignment, chunk from txqueue.next_job"
            "(%s, %s, '{default}', '{test.kind}', %s, %s, 100, 1000, %s)"
            " where assignment is not null",
            (self.node_id, self.incarnation, weight, largest or weight, workers),
        )
        return [
            Taken(lane, number, read_chunk(text)) for lane, number, text in self.cursor.fetchall()
        ]

    def claimed_ids(self, weight: int = 1000, **options: Any) -> list[int]:
        """Take jobs; returns their numbers in the order taken."""
        return [job_id for chunk in self.claim(weight, **options) for job_id in chunk.ids]

    def complete(self, chunk: Taken) -> int:
        """Complete all jobs of a chunk; returns how many still were this assignment's."""
        done: int = self.value(
            "select total from txqueue.complete(%s, %s::smallint[], %s::bigint[], %s::text[])",
            self.incarnation,
            [chunk.lane],
            [chunk.assignment],
            [f"{{{','.join(map(str, chunk.ids))}}}"],
        )
        self.notify_ends(chunk.ids)
        return done

    def notify_ends(self, job_ids: Iterable[int]) -> float:
        """Notify waiting clients as a node does after the end of jobs; returns for how long yet."""
        numbers = ",".join(map(str, job_ids))
        seconds: float = self.value("select txqueue.notify_ends(%s)", numbers)
        return seconds

    def settle(self, chunk: Taken, outcome: str, **more: object) -> list[int]:
        """Settle all jobs of a chunk in one way; returns the numbers of those that it could."""
        outcomes = [
            {"job_id": job_id, "assignment": chunk.assignment, "outcome": outcome, **more}
            for job_id in chunk.ids
        ]
        settled: list[int] = self.value(
            "select settled from txqueue.settle(%s, %s)", self.incarnation, json.dumps(outcomes)
        )
        self.notify_ends(settled)
        return settled

    def falls_silent(self, seconds: float = 3600) -> None:
        """Age its last heartbeat, while the other nodes have kept their leases for long."""
        self.cursor.execute(
            "update txqueue.node_info set leased_at = 'epoch', heartbeat_at = case incarnation"
            " when %s then now() - make_interval(secs => %s) else heartbeat_at end",
            (self.incarnation, seconds),
        )

    def beats(self) -> bool:
        """Renew the lease; returns whether there was one to renew."""
        return bool(self.value("select owned from txqueue.heartbeat(%s, 0)", self.incarnation))

    def job(self, job_id: int) -> dict[str, Any]:
        """Return the one row of a job."""
        with self.connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
            cursor.execute("select * from txqueue.job where job_id = %s", (job_id,))
            (row,) = cursor.fetchall()
        return dict(row)

    def states(self) -> dict[str, int]:
        """Count the jobs by state."""
        self.cursor.execute("select state::text, count(*) from txqueue.job group by 1")
        return dict(self.cursor.fetchall())


@contextmanager
def stored(dsn: str, node: str = "node") -> Iterator[Stored]:
    """Open a session and close it at the end."""
    session = Stored(dsn, node)
    try:
        yield session
    finally:
        session.close()
