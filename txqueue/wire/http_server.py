"""HTTP requests that take turns with all else that a process does, a server with a bound on
connections, and the service that opens its port.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IProtocolFactory, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web import server

from txqueue.wire.endpoints import Endpoint
from txqueue.wire.limits import crowded_out, network_of
from txqueue.wire.pipe import DescriptorGuard

# Octets that a protocol gets at a time: no more than about ten requests, which it may answer at
# once. And for how many seconds, and how many times, protocols get some in a turn of the reactor.
PIECE: Final = 256
BUDGET: Final = 0.01
MOST_PIECES: Final = 64
# Octets that a connection may have sent ahead; more close it.
MOST_AHEAD: Final = 1 << 18


class Feeder:
    """Feeds connections with what their peers sent, for a short time in each turn of the reactor.

    Args:
        clock: Begins the next turn.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._waiting: deque[FedConnection] = deque()
        self._until = 0.0
        self._pieces_left = 0
        self._is_scheduled = False

    def add(self, connection: FedConnection) -> None:
        """Feed a connection, at once while there is time left in this turn."""
        self._waiting.append(connection)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._begin()
            self._clock.callLater(0, self._turn)
        self._feed()

    def _turn(self) -> None:
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            self._begin()
            self._clock.callLater(0, self._turn)
            self._feed()

    def _begin(self) -> None:
        self._until, self._pieces_left = time.monotonic() + BUDGET, MOST_PIECES

    def _feed(self) -> None:
        while self._waiting and self._pieces_left > 0 and time.monotonic() < self._until:
            self._pieces_left -= 1
            connection = self._waiting.popleft()
            if connection.take_piece():
                self._waiting.append(connection)


class FedConnection(ProtocolWrapper):
    """A connection whose protocol gets what its peer sent in small pieces, and in its turn.

    Args:
        factory: The server.
        wrapped: The protocol.
        feeder: Has the connection's turn.
    """

    def __init__(self, factory: Any, wrapped: Any, feeder: Feeder) -> None:
        super().__init__(factory, wrapped)
        self._feeder = feeder
        self._buffer = b""
        self._is_waiting = False
        self._is_answering = False

    def dataReceived(self, data: bytes) -> None:
        """Keep what came until its turn; close a connection that sends too much ahead."""
        self._buffer += data
        if len(self._buffer) > MOST_AHEAD:
            self._buffer = b""
            self.abortConnection()
        self._wait_for_turn()

    def take_piece(self) -> bool:
        """Give the protocol a piece; return whether to do so again."""
        if self._is_answering or not self._buffer:
            self._is_waiting = False
            return False
        piece, self._buffer = self._buffer[:PIECE], self._buffer[PIECE:]
        super().dataReceived(piece)
        self._is_waiting = bool(self._buffer) and not self._is_answering
        return self._is_waiting

    def answering(self) -> Callable[[object], None]:
        """Give the protocol no more until the function that this returns is called."""
        self._is_answering = True
        return self._answered

    def _answered(self, _: object) -> None:
        self._is_answering = False
        self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        if self._buffer and not self._is_waiting and not self._is_answering:
            self._is_waiting = True
            self._feeder.add(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Forget what was not read."""
        self._buffer = b""
        super().connectionLost(reason)


class SteadyRequest(server.Request):
    """A request that its connection answers before it reads the next one."""

    def process(self) -> None:
        """Answer the request."""
        connection = self.channel.transport
        if isinstance(connection, FedConnection):
            self.notifyFinish().addBoth(connection.answering())
        super().process()


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


class QuietSite(server.Site):
    """An HTTP server that logs no requests: addresses may have names of tenants and the like."""

    noisy = False
    requestFactory = SteadyRequest

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
