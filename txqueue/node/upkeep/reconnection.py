"""Lets services that failed without the database try again as soon as that makes sense."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from txqueue.node.state.periodic import Periodic
from txqueue.store.driver.reconnecting import ReconnectBackoff
from txqueue.system.clock import Clock

__all__ = ["Reconnection"]


class Reconnection(Periodic):
    """Ends the pause of one failed service when an attempt to connect is due, of all on success.

    The pauses of services are longer than those of the reconnect backoff: without this, the
    database may be back for seconds before the first service connects.

    Args:
        clock: Times the pauses.
        backoff: The backoff of the node's connections.
        services: The node's services, those first that try first.
    """

    name = "reconnection"

    def __init__(self, clock: Clock, backoff: ReconnectBackoff, services: Iterable[object]) -> None:
        super().__init__(clock)
        self._reconnects = backoff
        self._services = services
        backoff.on_failure = self.alarm.ring
        backoff.on_recovery = self._recover

    async def step(self) -> float | None:
        """Wait until an attempt may be made, and let one service make it."""
        left = self._reconnects.left
        if left != 0.0:
            return left
        for service in self._failed():
            service.alarm.ring()
            break
        return None

    def _recover(self) -> None:
        for service in self._failed():
            service.retry()

    def _failed(self) -> Iterator[Periodic]:
        for service in self._services:
            if isinstance(service, Periodic) and service.has_failed:
                yield service
