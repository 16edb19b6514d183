"""What follows a job that its handler has asked for: next stages, and others taken along."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from txqueue.errors import InvalidWork, KeyUnavailable
from txqueue.model.directives import Next
from txqueue.model.payload import decode
from txqueue.model.work_item import WorkItem, find_work_type
from txqueue.policy.outcome import Verdict, judge_cancelled
from txqueue.store.encryption import opened
from txqueue.store.enqueueing import job_object
from txqueue.store.errors import is_passing
from txqueue.worker.runtimes import Kind

if TYPE_CHECKING:
    from txqueue.store.transaction import Transaction
    from txqueue.worker.running_job import RunningJob

__all__ = ["carry_on", "coalesced", "enqueue_stages", "moved_on"]

# Seconds between two tries to complete a job while the database is away.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0


async def carry_on(job: RunningJob, kind: Kind, value: Any, clock: IReactorTime) -> None:
    """Complete a job and enqueue what its handler said comes then, in one transaction.

    The handler has succeeded: while the database is away, this is tried again, as all endings are.

    Args:
        job: The job.
        kind: Its type.
        value: What its handler returned.
        clock: Times the pauses.

    Raises:
        InvalidWork: When JSON cannot carry the value.
        Refused: When the database refuses what comes then; the job is not completed.
        TokenLost: When the job has been assigned elsewhere since.
    """
    if value is not None:
        job.result = json.dumps(kind.stored_result(value))
    pause = FIRST_PAUSE
    while not await _completed(job):
        await deferLater(clock, pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _completed(job: RunningJob) -> bool:
    """Complete a job; returns whether that was possible now."""
    try:
        async with job.transaction():
            """Its end enqueues what comes then: see `enqueue_stages`."""
    except Exception as error:
        if not is_passing(error):
            raise
        return False
    return True


async def enqueue_stages(job: RunningJob, txn: Transaction) -> None:
    """Enqueue what comes after a job in the transaction that completes it."""
    for work, options in job.stages:
        await txn.enqueue(work, **options)


async def coalesced(job: RunningJob, limit: int, *, later: bool = False) -> list[WorkItem]:
    """Take pending jobs along in a job's own transaction; returns their work items.

    Raises:
        InvalidWork: When that transaction is not open, or a payload does not fit.
    """
    if job.within is None:
        raise InvalidWork(
            "a job takes others along in its own transaction only",
            "call it inside: async with job.transaction()",
        )
    taken = await job.within.take_along(job.token, job.id, limit, later=later)
    return [_work(find_work_type(work_type), json.loads(text)) for work_type, text in taken]


def _work(cls: type[WorkItem], payload: Any) -> WorkItem:
    if cls.encrypted:
        payload = opened(cls.work_type, "payload", payload)
    return decode(cls, payload)


def moved_on(said: Next, job: RunningJob) -> Verdict:
    """Return how an attempt ended whose handler said that the job goes on."""
    if job.cancelled_by is not None:
        return judge_cancelled(None, job.cancelled_by)
    if job.stages:
        # Otherwise their loss would go unnoticed.
        return Verdict("failed", error="it goes on, so nothing can come then: say one of them")
    try:
        stage = job_object(said.work, said.options)
        # Nothing else looks before the master is told.
        json.dumps(stage, allow_nan=False)
    except (InvalidWork, KeyUnavailable, TypeError, ValueError) as error:
        return Verdict("failed", error=f"its next stage is not valid: {error}")
    return Verdict("next", stage=stage)
