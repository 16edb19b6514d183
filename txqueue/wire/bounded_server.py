"""A server with a bound on its connections and on its part of each turn of the reactor."""

from __future__ import annotations

from typing import Final

from twisted.internet.interfaces import IAddress, IProtocolFactory, IReactorTime
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory

from txqueue.wire.connection_limits import crowded_out, network_of
from txqueue.wire.descriptor_guard import DescriptorGuard
from txqueue.wire.steady_http import FedConnection, Feeder

__all__ = ["BoundedServer"]

# Evicted connections that are not closed yet.
_CLOSING: Final = 32


class BoundedServer(WrappingFactory):
    """Serves connections up to a number; more evict the oldest one of the peer that has the most.

    Args:
        clock: Begins the turns in which the connections are served.
        server: Serves the connections, and closes those that are silent.
        limit: The most connections at a time.
        descriptors: Refuses connections while descriptors run low.
    """

    noisy = False

    def __init__(
        self,
        clock: IReactorTime,
        server: IProtocolFactory,
        limit: int,
        descriptors: DescriptorGuard | None = None,
    ) -> None:
        super().__init__(server)
        self._feeder = Feeder(clock)
        self._limit = limit
        self._descriptors = descriptors or DescriptorGuard()
        self._from: dict[ProtocolWrapper, str] = {}
        self._evicted: set[ProtocolWrapper] = set()

    def buildProtocol(self, addr: IAddress | None) -> ProtocolWrapper | None:  # type: ignore[override]
        """Serve a new connection; close it if too many are being closed.

        While descriptors run low it replaces another one of this server, if there is any.
        """
        if len(self._evicted) >= _CLOSING:
            return None
        may_accept = self._descriptors.may_accept
        if not may_accept and not self._from:
            return None
        if not may_accept or len(self._from) >= self._limit:
            self._evict()
        connection = FedConnection(self, self.wrappedFactory.buildProtocol(addr), self._feeder)
        self._from[connection] = network_of(str(getattr(addr, "host", "")))
        return connection

    def unregisterProtocol(self, p: ProtocolWrapper) -> None:
        """Forget a closed connection."""
        super().unregisterProtocol(p)
        self._from.pop(p, None)
        self._evicted.discard(p)

    def hang_up(self) -> None:
        """Close all connections."""
        for protocol in list(self.protocols):
            protocol.loseConnection()

    def _evict(self) -> None:
        oldest_first = list(self._from)
        evicted = oldest_first[crowded_out(list(self._from.values()))]
        del self._from[evicted]
        self._evicted.add(evicted)
        evicted.abortConnection()
