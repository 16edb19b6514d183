"""What a caller that waits for a job gets: the handler's result, or an error."""

from __future__ import annotations

from txqueue.errors import DatabaseUnavailable, JobFailed, JobNotFound, WaitTimeout
from txqueue.model.job import Job, State
from txqueue.store.enqueueing.encryption import decrypted_result

__all__ = ["closed_before", "missing", "not_in_time", "result_of"]


def result_of(job: Job) -> object:
    """Return the result of an ended job, decrypted.

    Raises:
        JobFailed: When the job failed or was cancelled.
        KeyUnavailable: When no key of this process decrypts the result.
    """
    if job.state is not State.DONE:
        raise JobFailed(
            f"job {job.id} is {job.state}: {(job.error or 'no reason given').splitlines()[0]}"
        )
    return decrypted_result(job.work_type, job.result)


def missing(job_id: int, *, is_in_transaction: bool) -> JobNotFound:
    """Return the error for a job that is not there.

    Args:
        job_id: The job's number.
        is_in_transaction: Whether the caller is inside a transaction of a queue.
    """
    if is_in_transaction:
        return JobNotFound(
            f"job {job_id} is not there, or is of a transaction that has not committed",
            "a job begins after the commit: read it or wait for it after queue.transaction()",
        )
    return JobNotFound(f"there is no job {job_id}", "check the number; old history is dropped")


def not_in_time(job_id: int, timeout: float) -> WaitTimeout:
    """Return the error for a job that did not end in time."""
    return WaitTimeout(
        f"job {job_id} did not end within {timeout} s",
        f"wait longer, or see why: txqueue explain {job_id}",
    )


def closed_before(job_id: int) -> DatabaseUnavailable:
    """Return the error for a caller that waited when the queue was closed."""
    return DatabaseUnavailable(
        f"the queue was closed before job {job_id} ended", "close the queue after the wait"
    )
