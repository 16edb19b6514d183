"""How a run has ended, as a test sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, field, frozen

from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem

__all__ = ["Outcome"]


@frozen
class Outcome:
    """How a run has ended.

    Attributes:
        kind: ``done``, ``retry``, ``snooze``, ``next``, ``suspended`` if the job waits, ``failed``,
            ``cancelled``, or ``unread`` if the payload does not fit the class.
        result: What the handler returned, as it is stored.
        error: What the handler raised, or `Fail`; None if the attempt did not fail.
        reason: The text that is stored with the job: of the error, of `Fail` or of `Discard`.
        delay: Seconds until the next run, if there is one.
        stage: The work item of the next stage, if the handler returned `Next`.
        follow_ups: What the handler has added with ``job.then()``, with the options.
        progress: The handler's last report: ``[done, total, note]``.
        job_id: The job's number; 0 for one that only `perform` has run.
        work_type: The name of its work type.
        attempt: The number of the run.
        steps: What this run has done, by the names of the steps: what each has returned.
        waits: What the job waits for, by the names of the steps: ``signal``, ``sleep`` or ``call``.
        calls: The work that this run has enqueued by ``job.call()``, by the names of the steps.
    """

    kind: str
    result: Any = None
    error: BaseException | None = None
    reason: str | None = field(default=None, repr=False)
    delay: float | None = None
    stage: WorkItem | None = None
    follow_ups: Sequence[tuple[WorkItem, EnqueueOptions]] = Factory(tuple)
    progress: Any = None
    job_id: int = 0
    work_type: str = ""
    attempt: int = 1
    steps: Mapping[str, Any] = Factory(dict)
    waits: Mapping[str, str] = Factory(dict)
    calls: Mapping[str, WorkItem] = Factory(dict)

    def get(self) -> Any:
        """Return the result of a job that is done.

        Raises:
            BaseException: What the handler raised, with its traceback.
            AssertionError: When the job has ended otherwise.
        """
        if self.error is not None:
            raise self.error
        if self.kind != "done":
            raise AssertionError(f"the job is not done: {self}")
        return self.result
