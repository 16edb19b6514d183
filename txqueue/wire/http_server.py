"""An HTTP server with a bound on connections, and the service that opens its port."""

from __future__ import annotations

from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IProtocolFactory
from twisted.logger import Logger
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web import server

from txqueue.wire.endpoints import Endpoint
from txqueue.wire.guarded_pipes import crowded_out, network_of
from txqueue.wire.pipe import DescriptorGuard

# Evicted connections that are not closed yet.
_CLOSING: Final = 32


class BoundedServer(WrappingFactory):
    """Serves connections up to a number; more evict the oldest one of the peer that has the most.

    Args:
        server: Serves the connections, and closes those that are silent.
        limit: The most connections at a time.
        descriptors: Refuses connections while descriptors run low.
    """

    noisy = False

    def __init__(
        self,
        server: IProtocolFactory,
        limit: int,
        descriptors: DescriptorGuard | None = None,
    ) -> None:
        super().__init__(server)
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
        connection = ProtocolWrapper(self, self.wrappedFactory.buildProtocol(addr))
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


class QuietSite(server.Site):
    """An HTTP server that logs no requests: addresses may have names of tenants and the like."""

    noisy = False

    def log(self, request: object) -> None:
        """Do nothing."""


class HttpService(Service):
    """Opens the port of an HTTP server while it runs.

    A port that cannot be opened is logged, and the node runs: its jobs matter more than its pages.

    Args:
        reactor: Opens the port.
        endpoint: Where to listen.
        server: Serves the connections.
        name: What listens, for the log.
    """

    _log = Logger()

    def __init__(self, reactor: Any, endpoint: Endpoint, server: BoundedServer, name: str) -> None:
        self._reactor = reactor
        self._endpoint = endpoint
        self._server = server
        self._texts = {"name": name, "endpoint": endpoint}
        self._listening: Deferred[Any] = succeed(None)

    def startService(self) -> None:
        """Listen."""
        super().startService()
        self._listening = self._endpoint.listen(self._reactor, self._server)
        self._listening.addCallbacks(self._listens, self._cannot_listen)

    def stopService(self) -> Deferred[None]:
        """Stop listening."""
        super().stopService()
        return self._listening.addCallback(
            lambda port: None if port is None else port.stopListening()
        )

    def _listens(self, port: Any) -> Any:
        self._log.info("{name} listens at {endpoint}", **self._texts)
        return port

    def _cannot_listen(self, failure: Failure) -> None:
        error = failure.value
        self._log.critical(
            "{name} cannot listen at {endpoint}: {error}", error=error, **self._texts
        )
