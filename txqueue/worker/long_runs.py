"""Watches running jobs: reports long runs and their progress, and finds hung ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn, cast

from txqueue.model.assignment import StartedJob
from txqueue.worker.running_job import Execution

__all__ = ["BEAT", "Watch", "is_hung", "took_too_long"]

BEAT = 1.0
"""Seconds between two checks of the running jobs; a job that runs for longer is reported."""


def is_hung(silent: float, heartbeat: float | None) -> bool:
    """Tell whether a handler is hung: silent for longer than its class's heartbeat."""
    return heartbeat is not None and silent > heartbeat


def took_too_long(result: object, timeout: float) -> NoReturn:  # noqa: ARG001 - addTimeout's
    """Fail an attempt at its timeout."""
    raise TimeoutError(f"it ran for longer than its timeout of {timeout:g} s")


class Watch:
    """Reports long runs and new progress, and interrupts hung handlers.

    Args:
        clock: Returns the time in seconds.
        running: Returns the running jobs.
        report: Receives the reports of long runs and of progress.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        running: Callable[[], Iterable[Execution]],
        report: Callable[[list[StartedJob]], None],
    ) -> None:
        self._clock = clock
        self._running = running
        self._report = report

    def look(self) -> None:
        """Check all running jobs once."""
        now = self._clock()
        runs = list(self._running())
        told = [self._told(run, now) for run in runs if _is_news(run, now)]
        if told:
            self._report(told)
        for run in runs:
            heartbeat = cast("float | None", run.kind.cls.heartbeat)
            if run.job.take_beat():
                run.heard_at = now
            elif run.is_completing:
                continue
            elif is_hung(now - run.heard_at, heartbeat) and not run.is_hung:
                run.is_hung = True
                run.interrupt()

    def _told(self, run: Execution, now: float) -> StartedJob:
        run.is_reported = True
        job = run.job
        return StartedJob(job.token.assignment, job.id, now - run.began, job.take_progress())


def _is_news(run: Execution, now: float) -> bool:
    return (not run.is_reported and now - run.began >= BEAT) or run.job.has_progress
