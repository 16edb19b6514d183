"""The base class of services that repeat a step, and a sleep that can be ended early."""

from __future__ import annotations

import random

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from txqueue.errors import DatabaseUnavailable
from txqueue.node.state.outage import Outage
from txqueue.policy.backoff import Backoff
from txqueue.store.driver.errors import complaint
from txqueue.system.clock import Clock, Timer

__all__ = ["Alarm", "Periodic"]

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# Seconds after a stop in which the current step must end: a few times the patience of a statement.
# A step whose answer never comes must not keep the node from its end.
LAST_STEP = 30.0


class Alarm:
    """A sleep that `ring()` ends early; a ring between two sleeps ends the next one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = False
        self._sleeper: Deferred[None] | None = None
        self._timer: Timer | None = None

    def ring(self) -> None:
        """End the current sleep, or the next one."""
        self._rung = True
        self._wake()

    async def wait(self, seconds: float | None) -> None:
        """Sleep until the alarm rings, but at most for a number of seconds; None for no limit."""
        if not self._rung and (seconds is None or seconds > 0):
            self._sleeper = Deferred()
            if seconds is not None:
                self._timer = self._clock.callLater(seconds, self._wake)
            await self._sleeper
        self._rung = False

    def _wake(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            sleeper.callback(None)


class Periodic(Service):
    """A service that repeats a step, with the delay that the step returns, until stopped.

    An error in a step is logged, and the step is retried with backoff; no error ends the service.

    Args:
        clock: Times the waits.
        alarm: Ends a wait early when it rings; None to make a new alarm.

    Attributes:
        outage: Notified that a step fails without the database, and that one does not.
    """

    log = Logger()

    def __init__(self, clock: Clock, alarm: Alarm | None = None) -> None:
        self.alarm = Alarm(clock) if alarm is None else alarm
        self.outage = Outage(clock)
        self._timer = clock
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._finished: Deferred[None] | None = None

    async def step(self) -> float | None:
        """Take one step.

        Returns:
            Seconds until the next step, or None to wait until the alarm rings.
        """
        raise NotImplementedError

    def startService(self) -> None:
        """Start repeating the step."""
        super().startService()
        self._finished = Deferred.fromCoroutine(self._go_on())

    def stopService(self) -> Deferred[None] | None:
        """Stop after the current step, which is cancelled if it takes too long."""
        super().stopService()
        self.alarm.ring()
        if self._finished is not None:
            self._finished.addTimeout(LAST_STEP, self._timer)  # type: ignore[arg-type]  # it needs callLater only
        return self._finished

    @property
    def has_failed(self) -> bool:
        """Whether the last step failed."""
        return not self._backoff.is_fresh

    def retry(self) -> None:
        """If the last step failed, repeat it at once instead of after its pause."""
        if self.has_failed:
            self._backoff.reset()
            self.alarm.ring()

    async def _go_on(self) -> None:
        while self.running:
            await self.alarm.wait(await self._safe_step())

    async def _safe_step(self) -> float | None:
        try:
            delay = await self.step()
        except DatabaseUnavailable as error:
            self.outage.fails(self, error)
        except Exception as error:
            self.outage.passes(self)
            self._complain(error)
        else:
            self.outage.passes(self)
            self._backoff.reset()
            return delay
        # Jitter: all nodes lose the database together, but must not return together.
        return self._backoff.take(random.random())

    def _complain(self, error: Exception) -> None:
        """Log the database's refusals as one line, and other errors with a traceback."""
        service, pause = self.name or type(self).__name__, self._backoff.pause
        is_cut_off = isinstance(error, CancelledError)
        said = "a step without an end was cancelled" if is_cut_off else complaint(error)
        if said is None:
            self.log.failure(
                "{service}: trying again in {pause:.1f} s", service=service, pause=pause
            )
        else:
            self.log.warn(
                "{service}: {said}; trying again in {pause:.1f} s",
                service=service,
                said=said,
                pause=pause,
            )
