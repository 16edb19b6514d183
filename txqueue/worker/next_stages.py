"""What a handler adds to its job's completion: next stages, follow-up work, coalesced jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from txqueue.errors import InvalidWork, KeyUnavailable
from txqueue.model.directives import Next
from txqueue.model.foreign import text_of
from txqueue.model.payload import decode
from txqueue.model.work_item import WorkItem, find_work_type
from txqueue.policy.outcome import Verdict, judge_cancelled, storable, summary_of
from txqueue.store.encryption import decrypted
from txqueue.store.enqueueing import job_object, json_text
from txqueue.store.errors import is_passing
from txqueue.tracing.choice import sending
from txqueue.worker.runtimes import check_length

if TYPE_CHECKING:
    from txqueue.store.transaction import Transaction
    from txqueue.worker.running_job import RunningJob

__all__ = ["coalesced", "complete_with_follow_ups", "enqueue_follow_ups", "judge_next"]

# Shortest and longest pause before completing a job is tried again, while the database is away.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0


async def complete_with_follow_ups(job: RunningJob, clock: IReactorTime) -> None:
    """Complete a job and enqueue its follow-up work, in one transaction.

    The handler has succeeded, so the transaction is retried while the database is away.

    Args:
        job: The job, with the result to store.
        clock: Times the retries.

    Raises:
        Refused: When the database refuses the follow-up work; the job is not completed.
        TokenLost: When the job has been assigned elsewhere since.
    """
    pause = FIRST_PAUSE
    while not await _completed(job):
        await deferLater(clock, pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _completed(job: RunningJob) -> bool:
    """Complete a job; return whether that succeeded."""
    try:
        async with job.transaction():
            """The commit completes the job and enqueues its follow-up work."""
    except Exception as error:
        if not is_passing(error):
            raise
        return False
    return True


async def enqueue_follow_ups(job: RunningJob, txn: Transaction) -> None:
    """Enqueue a job's follow-up work in the transaction that completes it."""
    for work, options in job.follow_ups:
        await txn.enqueue(work, **options)


async def coalesced(job: RunningJob, limit: int, *, later: bool = False) -> list[WorkItem]:
    """End pending jobs that are similar to a job, in its own transaction; return their work items.

    Raises:
        InvalidWork: When that transaction is not open, or a payload does not fit its class.
    """
    if job.within is None:
        raise InvalidWork(
            "a job coalesces others in its own transaction only",
            "call it inside: async with job.transaction()",
        )
    taken = await job.within.coalesce_into(job.token, job.id, limit, later=later)
    return [_work(find_work_type(work_type), json.loads(text)) for work_type, text in taken]


def _work(cls: type[WorkItem], payload: Any) -> WorkItem:
    if cls.encrypted:
        payload = decrypted(cls.work_type, "payload", payload)
    return decode(cls, payload)


def judge_next(said: Next, job: RunningJob, longest: int) -> Verdict:
    """Return the outcome of an attempt whose handler returned or raised `Next`.

    Args:
        said: The next stage.
        job: The job.
        longest: The longest stage, in bytes of JSON text.
    """
    if job.cancelled_by is not None:
        return judge_cancelled(None, job.cancelled_by)
    if job.follow_ups:
        # Otherwise follow-up work would be lost silently.
        return Verdict("failed", error="a job cannot use both Next and job.then(): use one of them")
    try:
        with sending(said.work, said.options) as call:
            stage = job_object(said.work, call.options)
        # This is the only check before the report to the master.
        json_text(stage)
        text = json.dumps(stage, allow_nan=False, ensure_ascii=False)
        check_length("next stage", text, longest)
        stage = json.loads(text)
    except (InvalidWork, KeyUnavailable) as error:
        return Verdict("failed", error=storable(f"its next stage is not valid: {text_of(error)}"))
    except BaseException as error:
        return Verdict(
            "failed", error=storable(f"its next stage is not valid: {summary_of(error)}")
        )
    return Verdict("next", stage=stage)
