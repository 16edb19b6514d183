"""Keeps the service manager informed: started, alive, status, stopping."""

from __future__ import annotations

from twisted.application.service import Service
from twisted.logger import Logger

from txqueue.health.reporter import HealthReporter
from txqueue.policy.health import Health
from txqueue.system.clock import Clock, Timer
from txqueue.system.service_manager import ServiceManager

__all__ = ["ServiceNotices"]

# Seconds between two looks at the health, unless the watchdog needs shorter ones.
EVERY = 5.0
# Seconds between two looks until the start is reported.
WHILE_STARTING = 0.25
# A request for more time covers this many intervals, so that a late one does no harm.
COVERS = 6


class ServiceNotices(Service):
    """Sends messages to the service manager, timed by the master's reactor.

    A reactor that is stuck sends none, so the watchdog of the service manager ends the process.

    Args:
        clock: The master's reactor.
        manager: The service manager.
        reporter: Reports the health.
    """

    log = Logger()

    def __init__(self, clock: Clock, manager: ServiceManager, reporter: HealthReporter) -> None:
        self._clock = clock
        self._manager = manager
        self._reporter = reporter
        self._every = EVERY
        if manager.watchdog is not None:
            self._every = min(EVERY, manager.watchdog / 2)
        self._is_up = False
        self._is_stopping = False
        self._reason: str | None = None
        self._timer: Timer | None = None

    def startService(self) -> None:
        """Start to look at the health."""
        super().startService()
        self._look()

    def begin_stop(self) -> None:
        """Report that the stop has begun; from now on each look asks for more time."""
        self._is_stopping = True
        self._reason = self._reporter.report().reason
        self._manager.stopping(self._reason)
        self._look()

    def stopService(self) -> None:
        """Send no more messages."""
        super().stopService()
        self._cancel()

    def _look(self) -> None:
        self._cancel()
        health = self._reporter.report()
        if self._manager.watchdog is not None:
            self._manager.alive()
        if self._is_stopping:
            # Running jobs may take longer than the service manager waits by itself.
            self._manager.extend(self._every * COVERS)
        self._report(health)
        interval = self._every if self._is_up else min(WHILE_STARTING, self._every)
        self._timer = self._clock.callLater(interval, self._look)

    def _report(self, health: Health) -> None:
        if health.ready and not self._is_up:
            self._is_up = self._manager.ready(health.reason)
            if not self._is_up:
                self.log.warn("the service manager at NOTIFY_SOCKET does not take messages")
        elif health.reason == self._reason or not self._manager.status(health.reason):
            return
        self._reason = health.reason

    def _cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
