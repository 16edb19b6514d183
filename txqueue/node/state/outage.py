"""The lines of the log about an outage of the database: its beginning, that it lasts, its end."""

from __future__ import annotations

from typing import Final

from twisted.logger import Logger

from txqueue.errors import DatabaseUnavailable
from txqueue.model.humanize import duration
from txqueue.system.clock import Clock

__all__ = ["Outage"]

# Seconds between two lines of one outage.
SAID_EVERY: Final = 30.0


class Outage:
    """An outage of a node's database, as all services report it that the database does not answer.

    It ends once each of them has taken a step again.

    Args:
        clock: Times the outage.
        node: The node's name.
    """

    log = Logger()

    def __init__(self, clock: Clock, node: str = "") -> None:
        self._clock = clock
        self._name = f"the database of {node}" if node else "the database"
        self._waiting: set[object] = set()
        self._began = self._next = 0.0

    def fails(self, service: object, error: DatabaseUnavailable) -> None:
        """Note that a service waits for the database."""
        now = self._clock.seconds()
        if not self._waiting:
            self._began = self._next = now
        self._waiting.add(service)
        if now >= self._next:
            self._next = now + SAID_EVERY
            lasts = now - self._began
            gone = f"has been gone for {duration(lasts)}" if lasts else "is gone"
            self.log.warn("{name} {gone}: {error}", name=self._name, gone=gone, error=error)

    def passes(self, service: object) -> None:
        """Note that a service does not wait for the database, or no longer."""
        if service in self._waiting:
            self._waiting.remove(service)
            if not self._waiting:
                lasted = duration(self._clock.seconds() - self._began)
                self.log.info("{name} is back after {lasted}", name=self._name, lasted=lasted)
