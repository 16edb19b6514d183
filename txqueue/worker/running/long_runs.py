"""Watches running jobs: reports long runs and their progress, and finds hung ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from txqueue.model.assignment import StartedJob
from txqueue.worker.running.waiting_run import WaitingRun

__all__ = ["BEAT", "Watch", "is_hung"]

BEAT = 1.0
"""Seconds between two checks of the running jobs; a job that runs for longer is reported."""


def is_hung(silent: float, heartbeat: float | None) -> bool:
    """Tell whether a handler is hung: silent for longer than its class's heartbeat."""
    return heartbeat is not None and silent > heartbeat


class Watch:
    """Reports long runs and new progress, interrupts hung handlers, and insists that they end.

    Args:
        clock: Returns the time in seconds.
        running: Returns the running jobs.
        report: Receives the reports of long runs and of progress.
        abandon: Called with a run for which the worker waits no longer.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        running: Callable[[], Iterable[WaitingRun]],
        report: Callable[[list[StartedJob]], None],
        abandon: Callable[[WaitingRun], None],
    ) -> None:
        self._abandon = abandon
        self._clock = clock
        self._running = running
        self._report = report

    def look(self) -> None:
        """Check all running jobs once."""
        now = self._clock()
        runs = list(self._running())
        reports = [self._told(run, now) for run in runs if _is_news(run, now)]
        if reports:
            self._report(reports)
        for run in runs:
            if run.insist(now):
                self._abandon(run)
            else:
                _find_hung(run, now)

    def _told(self, run: WaitingRun, now: float) -> StartedJob:
        run.is_reported = True
        job = run.job
        return StartedJob(job.token.assignment, job.id, now - run.began, job.take_progress())


def _find_hung(run: WaitingRun, now: float) -> None:
    heartbeat = cast("float | None", run.kind.cls.heartbeat)
    if run.job.take_beat():
        run.heard_at = now
    elif is_hung(now - run.heard_at, heartbeat) and not (run.hung or run.is_completing):
        assert heartbeat is not None
        run.end_silence(heartbeat, now)


def _is_news(run: WaitingRun, now: float) -> bool:
    return (not run.is_reported and now - run.began >= BEAT) or run.job.has_progress
