"""Sessions that claim in ways of their own: other queues and types, and what a claim says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attrs import frozen

from tests.db.stored import Stored, Taken
from txqueue.model.assignment import read_chunk

__all__ = ["Claimed", "Master", "emptied", "master"]


@frozen
class Claimed:
    """All that one call of `next_job()` returned."""

    chunks: list[Taken]
    weights: list[int]
    due_in: float | None
    reached: tuple[str, int] | None

    @property
    def ids(self) -> list[int]:
        """The numbers of the jobs, in the order taken."""
        return [job_id for chunk in self.chunks for job_id in chunk.ids]


class Master(Stored):
    """A session that plays a master to the end."""

    def publish(self, work_type: str, **policy: object) -> int:
        """Publish a work type as some node would; returns how many jobs that readied."""
        kind = {"work_type": work_type, "queue": "default", "priority": 4, "weight": 1, **policy}
        readied: int = self.value("select txqueue.publish(%s)", json.dumps([kind]))
        return readied

    def reports(self, **report: object) -> None:
        """Report this, as by a heartbeat."""
        sql = "update txqueue.node_info set report = %s where incarnation = %s"
        self.cursor.execute(sql, (json.dumps(report), self.incarnation))

    def take(
        self,
        weight: int = 1000,
        *,
        queues: Sequence[str] = ("default",),
        work_types: Sequence[str] = ("test.kind",),
        largest: int | None = None,
        capacity: int = 100,
        workers: int = 1,
        ahead: int = 0,
        reached: tuple[str, int] = ("-infinity", 0),
    ) -> Claimed:
        """Call `next_job()`."""
        self.cursor.execute(
            "select lane, assignment, chunk, weight, due_in, reached, reached_job"
            " from txqueue.next_job(%s, %s, %s::text[], %s::text[], %s, %s, %s, 1000, %s,"
            " from_rank => %s, from_job => %s, ahead => %s)",
            (
                *(self.node_id, self.incarnation, list(queues), list(work_types)),
                *(weight, largest or weight, capacity, workers, *reached, ahead),
            ),
        )
        *taken, last = self.cursor.fetchall()
        chunks = [Taken(lane, number, read_chunk(text)) for lane, number, text, *_ in taken]
        *_, due_in, rank, job_id = last
        place = None if rank is None else (rank, job_id)
        return Claimed(chunks, [row[3] for row in taken], due_in, place)

    def take_ordinary(
        self, at_most: int = 8, queues: Sequence[str] = ("default",)
    ) -> list[int] | None:
        """Call `claim_ready()`; returns the jobs in the order taken, None if it declined."""
        self.cursor.execute(
            "select is_ordinary, jobs, weight, chunk"
            " from txqueue.claim_ready(%s, %s, %s::text[], array['test.kind'], %s)",
            (self.node_id, self.incarnation, list(queues), at_most),
        )
        [(is_ordinary, jobs, weight, chunk)] = self.cursor.fetchall()
        ids = [job.job_id for job in read_chunk(chunk)] if jobs else []
        assert (len(ids), len(ids)) == (jobs, weight or 0)
        return ids if is_ordinary else None

    def release(
        self, *assignments: int, died: bool = False, ids: Sequence[int] | None = None
    ) -> int:
        """Give jobs of assignments back."""
        released: int = self.value(
            "select txqueue.release(%s, %s::bigint[], %s, false, %s::bigint[])",
            self.incarnation,
            list(assignments),
            died,
            None if ids is None else list(ids),
        )
        return released

    def lane_is(self, lane: int) -> None:
        """Have the next jobs enqueued into a lane."""
        self.value("select setval('txqueue.lane', %s)", lane)

    def ready(self) -> list[int]:
        """The numbers of the jobs that are ready, by rank."""
        return self.column("select job_id from txqueue.job_ready order by rank, job_id")

    def waiting(self, reason: str) -> list[int]:
        """The numbers of the jobs that wait for something, in order."""
        return self.column(
            "select job_id from txqueue.job_waiting where waiting_for = %s order by 1", reason
        )


_ENDS = ("done", "failed", "cancelled")


def in_each_state(session: Master) -> dict[str, int]:
    """Return a job in each state; ``again`` waits for a retry, ``later`` for its time."""
    jobs = {}
    for name, outcome in (("again", "retry"), *((end, end) for end in _ENDS)):
        [jobs[name]] = session.enqueue({})
        assert session.settle(session.claim()[0], outcome, error="why", delay=1000)
    [jobs["assigned"]] = session.enqueue({})
    session.claim()
    jobs["ready"], jobs["later"] = session.enqueue({}, {"not_before": "2100-01-01T00:00:00Z"})
    return jobs


def emptied(session: Stored) -> None:
    """Have no job in the database, as before the first; for one example after another."""
    session.cursor.execute("truncate txqueue.job")


@contextmanager
def master(dsn: str, node: str = "node") -> Iterator[Master]:
    """Open a session of a master and close it at the end."""
    session = Master(dsn, node)
    try:
        yield session
    finally:
        session.close()
