"""What happens to the value that a handler returns: a directive, or the result of its job."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from txqueue.errors import InvalidWork
from txqueue.model.assignment import SettledJob
from txqueue.model.directives import Discard, Fail, Next, Snooze
from txqueue.model.foreign import is_a
from txqueue.worker.handlers.running_job import RunningJob, change
from txqueue.worker.handlers.runtimes import Kind
from txqueue.worker.running.endings import NO_RETRY, Endings

__all__ = ["Results"]

# Characters of a result that is reported with those of other jobs.
LONGEST_TOGETHER = 1 << 15
DIRECTIVES = (Snooze, Discard, Fail, Next)


class Results:
    """Takes the values that handlers return.

    Args:
        ends: The ends of runs that are reported to the master.
        complete: Completes a job together with its follow-up work.
    """

    def __init__(self, ends: Endings, complete: Callable[[RunningJob, Kind], None]) -> None:
        self._ends = ends
        self._complete = complete

    def take(self, job: RunningJob, kind: Kind, value: Any) -> None:
        """End the run of a job whose handler has returned a value, which may be any object."""
        try:
            self._take(job, kind, value)
        except BaseException as error:
            self._ends.undecided(job, error)

    def _take(self, job: RunningJob, kind: Kind, value: Any) -> None:
        if job.is_completed or (value is None and not job.follow_ups):
            if job.is_completed and is_a(value, *DIRECTIVES):
                self._ends.note_late(job, kind, value)
            self._ends.done(job)
        elif is_a(value, *DIRECTIVES):
            self._ends.judged(job, NO_RETRY, value, kind)
        else:
            self._store(job, kind, value)

    def _store(self, job: RunningJob, kind: Kind, value: Any) -> None:
        """Store the value as the job's result."""
        try:
            result = None if value is None else kind.stored_result(value)
        except InvalidWork as error:
            self._ends.judged(job, NO_RETRY, error, kind)
            return
        if job.follow_ups:
            change(job, result=result)
            self._complete(job, kind)
        elif job.last_progress is not None or len(result or "") > LONGEST_TOGETHER:
            settled = SettledJob(
                job.id, job.token.assignment, "done", result=json.loads(result or "")
            )
            self._ends.settle(job, settled)
        else:
            job.assignment.results.append(f'"{job.id}":{result}')
            self._ends.done(job)
