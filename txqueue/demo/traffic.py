"""Fills the queue, waits until all jobs are done, and times them by the database's clock."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from txqueue.demo.node import RunningNode
from txqueue.demo.progress import Advance, Pace
from txqueue.model.work_item import WorkItem
from txqueue.node.settings import policy_row
from txqueue.store.enqueueing.calls import batches
from txqueue.store.inquiries.reader import Session

__all__ = ["Span", "enqueue_all", "outcome", "publish", "wait_until_done"]


@frozen
class Span:
    """The outcomes and the time span of all jobs of a demo or measurement.

    Attributes:
        done: How many jobs are done.
        failed: How many jobs failed for good.
        seconds: The time from the first assignment to the last end.
    """

    done: int
    failed: int
    seconds: float


def publish(session: Session, *kinds: type[WorkItem]) -> None:
    """Publish work types, as a node does, so that jobs can be enqueued before a node starts."""
    rows = [policy_row(kind) for kind in kinds]
    session.rows(f"select {session.schema}.publish(%s)", (json.dumps(rows),))


def enqueue_all(session: Session, works: Iterable[WorkItem], advance: Advance) -> list[int]:
    """Enqueue work items in one transaction, a thousand per round trip; return their numbers."""
    ids: list[int] = []
    with session.transaction():
        for text in batches(works, {}):
            ids += session.enqueue_text(text)
            advance(len(ids))
    return ids


def wait_until_done(
    session: Session, node: RunningNode, jobs: int, advance: Advance, pace: Pace | None = None
) -> None:
    """Wait until no job is waiting, ready or assigned.

    Args:
        session: The session for the queries.
        node: The node, which must stay alive meanwhile.
        jobs: How many jobs there were at first.
        advance: Called with how many jobs have ended.
        pace: Limits how often the database is queried.

    Raises:
        NodeFailed: When the node ends.
    """
    pace = pace or Pace()
    while left := _asked(session, pace):
        advance(max(jobs - left, 0))
        node.ensure_alive()
        pace.rest()
    advance(jobs)


def _asked(session: Session, pace: Pace) -> int:
    pace.asking()
    return session.live_jobs()


def outcome(session: Session) -> Span:
    """Return the outcomes of all jobs of the schema."""
    row: tuple[Any, ...] = session.rows(
        "select count(*) filter (where state = 'done'), count(*) filter (where state = 'failed'),"
        " extract(epoch from max(finished_at) - min(assigned_at))"
        f" from {session.schema}.job where state in ('done', 'failed')"
    )[0]
    return Span(row[0], row[1], float(row[2] or 0))
