"""Listens for the database's NOTIFY and wakes the claimer."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from txqueue.errors import ConfigurationError
from txqueue.node.periodic import Periodic
from txqueue.node.wakeups import Wakeups
from txqueue.store.listener import Listener
from txqueue.system.clock import Clock

__all__ = ["Notifications"]

CHECK = 2.0
# Retry: NOTIFY may work again after a failover. Seconds.
UNHEARD_RETRY = 600.0


class Notifications(Periodic):
    """Keeps a listener connected; after each loss, wakes the claimer, which may have missed jobs.

    Args:
        clock: Times the checks, which need no statement.
        listener: The listening connection.
        wakeups: Wakes the claimer after a loss.
    """

    name = "notifications"

    def __init__(self, clock: Clock, listener: Listener, wakeups: Wakeups) -> None:
        super().__init__(clock)
        self._listener = listener
        self._wakeups = wakeups

    async def step(self) -> float | None:
        """Reconnect if the connection was lost."""
        try:
            if await self._listener.ensure():
                self._wakeups.look_for_work()
        except ConfigurationError as error:
            self.log.warn("{error}", error=error)
            return UNHEARD_RETRY
        return CHECK

    def stopService(self) -> Deferred[None] | None:
        """Stop listening."""
        self._listener.close()
        return super().stopService()
