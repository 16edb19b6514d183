"""Runs of handlers that wait, as the worker keeps them until they end; long ones are reported, hung
ones found.
"""

from __future__ import annotations

import signal
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

BEAT: Final = 1.0
"""Seconds between two checks of the running jobs; a job that runs for longer is reported."""


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
        is_completing: Whether the handler has returned and the job's completion is being written.
        timer: Calls when the job's timeout is over.
        ended_by: The error of the handler, if the worker has interrupted it: its timeout is over,
            or it was silent for too long.
        has_waited: Whether a transaction of it waited for a connection then.
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
    is_completing: bool = False
    timer: IDelayedCall | None = None
    ended_by: TimeoutError | Hung | None = None
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

    def end(self, by: type[TimeoutError | Hung], why: str, now: float) -> None:
        """End the run by an error that says why."""
        self.has_waited = self.job.waits_for_connection
        if self.has_waited:
            why += ", while it waited for a connection of job.transaction() or of a step"
        self.ended_by = by(why)
        self.cancel(now)

    def report(self, now: float) -> StartedJob | None:
        """Return what to report of the run, if it is long or has new progress."""
        if not self.job.has_progress and (self.is_reported or now - self.began < BEAT):
            return None
        self.is_reported = True
        job = self.job
        return StartedJob(job.token.assignment, job.id, now - self.began, job.take_progress())

    def look_for_beat(self, now: float) -> None:
        """End the run if its handler was silent for longer than its class's heartbeat."""
        heartbeat = cast("float | None", self.kind.cls.heartbeat)
        if self.job.take_beat():
            self.heard_at = now
        elif heartbeat is None or self.ended_by or self.is_completing:
            return
        elif now - self.heard_at > heartbeat:
            self.end(Hung, f"hung: silent for longer than {heartbeat:g} s", now)

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
        is_cancelled = error is not None and is_a(error, CancelledError)
        # An error that the handler raised by itself says more than its silence.
        if self.ended_by is None or not (is_cancelled or is_a(self.ended_by, TimeoutError)):
            return error
        if self.has_waited:
            # A run that ends before it has a connection spends no attempt.
            change(self.job, unavailable=self.ended_by)
        return self.ended_by
