"""Keeps the connection that listens for the database's NOTIFY."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from txqueue.errors import ConfigurationError
from txqueue.node.state.lease import Lease
from txqueue.node.state.periodic import Periodic
from txqueue.node.state.wakeups import Wakeups
from txqueue.store.driver.listener import Listener
from txqueue.store.node.functions import StoredFunctions
from txqueue.system.clock import Clock

__all__ = ["Notifications"]

CHECK = 1.0
# Retry: NOTIFY may work again after a failover. Seconds.
UNHEARD_RETRY = 600.0
# After a loss, jobs that notifications may have named are polled for so many times: the first poll
# leaves out those of the last moment.
POLLS = 2


class Notifications(Periodic):
    """Keeps a listener connected; after each loss, wakes the services that may have missed jobs.

    Args:
        clock: Times the checks, which need no statement.
        listener: The listening connection.
        functions: Name the channel of the node's run.
        lease: Has the node's run.
        wakeups: Wakes the services.
    """

    name = "notifications"

    def __init__(
        self,
        clock: Clock,
        listener: Listener,
        *,
        functions: StoredFunctions,
        lease: Lease,
        wakeups: Wakeups,
    ) -> None:
        super().__init__(clock)
        self._listener = listener
        self._functions = functions
        self._lease = lease
        self._wakeups = wakeups
        self._polls = 0

    async def step(self) -> float | None:
        """Reconnect if the connection was lost, and listen on the channel of the node's run."""
        try:
            if not await self._listener.check():
                # It withdraws its credit before the attempt to connect, which may take long.
                self._wakeups.open_credit.ring()
            if await self._listener.ensure(self._own_channel):
                self._wakeups.look_for_work()
                self._polls = POLLS
        except ConfigurationError as error:
            self.log.warn("{error}", error=error)
            return UNHEARD_RETRY
        finally:
            # It grants no credit while no notification would arrive.
            self._wakeups.open_credit.ring()
        if self._polls:
            self._polls -= 1
            self._wakeups.orphans.ring()
        return CHECK

    @property
    def _own_channel(self) -> str:
        if not self._lease.is_registered:
            return ""
        return self._functions.channel_of(self._lease.incarnation)

    def stopService(self) -> Deferred[None] | None:
        """Stop listening."""
        self._listener.close()
        return super().stopService()
