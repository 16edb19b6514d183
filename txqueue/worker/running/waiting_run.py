"""Runs of handlers that wait, as the worker keeps them until they end; long ones are reported, hung
ones found.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final, cast

from attrs import Factory, define
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from txqueue.errors import Hung
from txqueue.model.assignment import StartedJob
from txqueue.model.foreign import class_name, is_a, looked
from txqueue.model.job_policy import Runtime
from txqueue.model.run_log import RUNNING
from txqueue.system.inflight import InFlight
from txqueue.worker.handlers.running_job import RunningJob, change
from txqueue.worker.handlers.runtimes import Kind
from txqueue.worker.handlers.waiting import Waiting


def name_blocking_run(in_flight: InFlight) -> None:
    """Have SIGURG note the job whose handler runs at that moment.

    Python calls the function between two instructions of the handler, in its context. The signal is
    one that the system ignores where nothing was set, and that no library uses.

    Args:
        in_flight: Takes the number of the job, for the master to read.
    """

    def name(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        run = RUNNING.get()
        in_flight.name_blocker(0 if run is None else run.id)

    signal.signal(signal.SIGURG, name)
    # The starter of this process, or an import, may have blocked it.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGURG})
    signal.siginterrupt(signal.SIGURG, False)


CLEANUP: Final = 5.0
"""Seconds that a cancelled handler has to clean up; afterwards it is cancelled again and again."""

LONGEST_END: Final = 15.0
"""Seconds after which the worker waits no longer for a handler that was cancelled."""


@define(eq=False)
class WaitingRun:
    """A job whose handler is waiting for a Deferred, future or thread.

    Attributes:
        job: The job.
        kind: The job's work type.
        terms: The job's terms.
        began: When it started, by the reactor's clock.
        handler: Its handler.
        heard_at: When the handler last called `beat` or `progress`, or else when it started.
        is_reported: Whether the run was reported to the master.
        hung: The error of the handler, if the worker has interrupted it because it was silent.
        is_completing: Whether the handler has returned and the job's completion is being written.
        timer: Calls when the job's timeout is over.
        overran: The error of the handler, if its timeout is over.
        has_waited: Whether a transaction of it waited for a connection as either was over.
        cancelled_at: When the handler was first cancelled, or its thread could first see that it
            should end; None if it was not.
    """

    job: RunningJob
    kind: Kind
    terms: dict[str, Any]
    began: float
    handler: Waiting
    heard_at: float = Factory(lambda run: run.began, takes_self=True)
    is_reported: bool = False
    hung: Hung | None = None
    is_completing: bool = False
    timer: IDelayedCall | None = None
    overran: TimeoutError | None = None
    has_waited: bool = False
    cancelled_at: float | None = None

    log = Logger()

    def interrupt(self, now: float) -> None:
        """Interrupt the handler; a function in a thread sees that itself, in its next call."""
        if self.kind.cls.runtime is not Runtime.THREAD:
            self.cancel(now)
        elif self.cancelled_at is None:
            # The worker leaves the thread behind if it goes on for long: see `insist`.
            self.cancelled_at = now

    def cancel(self, now: float) -> None:
        """Stop waiting for the handler, and cancel it if possible."""
        if self.cancelled_at is None:
            self.cancelled_at = now
        try:
            self.handler.cancel()
        except BaseException as error:
            # A handler's own Deferred may refuse, as txpostgres's do; then it simply runs on.
            self.log.warn("a handler refuses to be cancelled: {error}", error=class_name(error))

    def overrun(self, timeout: float, now: float) -> None:
        """End the run, as its timeout is over."""
        self.overran = TimeoutError(
            f"it ran for longer than its timeout of {timeout:g} s{self._wait()}"
        )
        self.has_waited = self.job.waits_for_connection
        self.cancel(now)

    def end_silence(self, heartbeat: float, now: float) -> None:
        """End the run, as its handler was silent for longer than its heartbeat."""
        self.hung = Hung(f"hung: silent for longer than {heartbeat:g} s{self._wait()}")
        self.has_waited = self.job.waits_for_connection
        self.cancel(now)

    def _wait(self) -> str:
        waits = self.job.waits_for_connection
        whose = "job.transaction() or of a step"
        return f", while it waited for a connection of {whose}" if waits else ""

    def insist(self, now: float) -> bool:
        """Cancel a handler again that goes on long after it was cancelled.

        Returns:
            Whether it has gone on for so long that the worker should wait no longer for it.
        """
        if self.cancelled_at is None or self.is_completing:
            return False
        if now - self.cancelled_at >= LONGEST_END:
            return True
        if now - self.cancelled_at >= CLEANUP:
            self.interrupt(now)
        return False

    def close(self) -> None:
        """Wait no longer for the handler: a coroutine never continues, a thread is left behind."""
        looked(self.handler.close, None)

    def error_of(self, error: Any) -> Any:
        """Return the error by which the run ended; None if its handler has returned.

        Args:
            error: What the handler raised, if anything.
        """
        if self.overran is not None:
            error = self.overran
        # An error that the handler raised by itself says more than its silence.
        elif self.hung is not None and error is not None and is_a(error, CancelledError):
            error = self.hung
        else:
            return error
        if self.has_waited:
            # A run that ends before it has a connection spends no attempt.
            change(self.job, unavailable=error)
        return error


BEAT = 1.0
"""Seconds between two checks of the running jobs; a job that runs for longer is reported."""


def is_hung(silent: float, heartbeat: float | None) -> bool:
    """Tell whether a handler is hung: silent for longer than its class's heartbeat."""
    return heartbeat is not None and silent > heartbeat


@define(eq=False, slots=False)
class Watch:
    """Reports long runs and new progress, interrupts hung handlers, and insists that they end.

    Args:
        clock: Returns the time in seconds.
        running: Returns the running jobs.
        report: Receives the reports of long runs and of progress.
        abandon: Called with a run for which the worker waits no longer.
    """

    _clock: Callable[[], float]
    _running: Callable[[], Iterable[WaitingRun]]
    _report: Callable[[list[StartedJob]], None]
    _abandon: Callable[[WaitingRun], None]

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
