"""Ended jobs whose threads go on."""

from __future__ import annotations

from collections.abc import Callable

from txqueue.worker.handlers.running_job import RunningJob
from txqueue.worker.handlers.threads import HandlerThreads
from txqueue.worker.running.endings import Report

__all__ = ["Outlived"]


class Outlived:
    """Ended jobs whose threads go on, and so keep their weight.

    Args:
        threads: Have the threads.
        capacity: The weight that the worker runs at a time.
        report: Receives what is taken, and whether that leaves no room for any job.
        over: Called when the last thread of such a job has ended.
    """

    def __init__(
        self,
        threads: HandlerThreads,
        capacity: int,
        report: Report,
        over: Callable[[RunningJob], None],
    ) -> None:
        self._threads = threads
        self._capacity = capacity
        self._report = report
        self._over = over
        self._jobs: set[RunningJob] = set()

    def keeps(self, job: RunningJob) -> bool:
        """Tell whether a thread of an ended job goes on."""
        leaving = self._threads.left_by(job)
        if leaving is None:
            return False
        self._jobs.add(job)
        self._tell()
        leaving.addCallback(lambda _: self._left(job))
        return True

    def _left(self, job: RunningJob) -> None:
        self._jobs.remove(job)
        self._tell()
        self._over(job)

    def _tell(self) -> None:
        weight = sum(job.weight for job in self._jobs)
        is_stuck = weight >= self._capacity or len(self._jobs) >= self._threads.most
        self._report.occupy(weight, (job.id for job in self._jobs), is_stuck=is_stuck)
