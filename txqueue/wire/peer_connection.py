"""Connections between masters: identity is proved before any command is carried out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IHandshakeListener
from twisted.internet.protocol import Factory, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from txqueue.system.clock import Clock
from txqueue.wire.connection_limits import Admission
from txqueue.wire.endpoints import Endpoint, INetworkReactor
from txqueue.wire.limits import INTRODUCTION, GuardedPipe
from txqueue.wire.peer_commands import Hello, Kept, Lives, ReportLoad, Steal, Take, WakePeer
from txqueue.wire.pipe import PipeFactory, Responder, closed
from txqueue.wire.tls import NODE, peer_name

__all__ = ["Host", "PeerPipe", "PeerServer", "dialled"]

MOST_PEERS = 1_024


class Host(Protocol):
    """The owner of the connections. Each method is told on which one a command came."""

    def greeted(
        self, pipe: PeerPipe, name: str, incarnation: int, version: str
    ) -> dict[str, object]:
        """Check the identity that the other end claims; raises `NotAPeer` if it is not proved."""

    def reported(self, pipe: PeerPipe, load: str) -> dict[str, object]:
        """A peer says how loaded it is."""

    def handed(self, pipe: PeerPipe, assignments: str) -> dict[str, object]:
        """A peer hands work over."""

    def asked(self, pipe: PeerPipe, weight: int) -> Deferred[dict[str, object]]:
        """A peer asks for work."""

    def woken(self, pipe: PeerPipe) -> dict[str, object]:
        """A peer says that there may be work."""

    def sounded(self, pipe: PeerPipe) -> dict[str, object]:
        """A peer asks whether this node lives."""

    def kept_for(self, pipe: PeerPipe) -> dict[str, object]:
        """A peer has renewed this node's lease, because it answered."""

    def left(self, pipe: PeerPipe) -> None:
        """The connection is gone."""


@implementer(IHandshakeListener)
class PeerPipe(GuardedPipe):
    """One end of a connection between two masters.

    Args:
        clock: Limits how long an introduction takes.
        host: Its owner.
        is_secure: Whether it is TLS.
        stands: Fires when commands can be sent over it; None if no caller waits for that.

    Attributes:
        certified: The node that the other end's certificate names; None without TLS.
    """

    def __init__(
        self,
        clock: Clock,
        host: Host,
        *,
        is_secure: bool,
        stands: Deferred[None] | None = None,
    ) -> None:
        self._host = host
        self._is_secure = is_secure
        self._stands = stands
        self.certified: str | None = None
        super().__init__(
            clock,
            {
                Hello: partial(host.greeted, self),
                ReportLoad: partial(host.reported, self),
                Take: partial(host.handed, self),
                Steal: partial(host.asked, self),
                WakePeer: partial(host.woken, self),
                Lives: partial(host.sounded, self),
                Kept: partial(host.kept_for, self),
            },
            lost=self._gone,
        )

    def connectionMade(self) -> None:
        """Give the other end some seconds to prove its identity."""
        super().connectionMade()
        if not self._is_secure:
            self._ready()

    def handshakeCompleted(self) -> None:
        """The other end has proved its certificate; look whose it is."""
        named = peer_name(self.transport)
        if named is None or named[0] != NODE:
            self.drop("its certificate is not a node's")
            return
        self.certified = named[1]
        self._ready()

    def locateResponder(self, name: bytes) -> Responder | None:
        """Find what carries out a command: of a stranger only the first."""
        if not self.is_known and name != Hello.commandName:
            self.drop("sent a command before it proved its identity")
            return None
        return super().locateResponder(name)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Fire the waiting Deferreds."""
        stands, self._stands = self._stands, None
        super().connectionLost(reason)
        if stands is not None:
            stands.errback(closed(reason))

    def _ready(self) -> None:
        if self.is_closed:
            return
        self.watch_reading()
        stands, self._stands = self._stands, None
        if stands is not None:
            stands.callback(None)

    def _gone(self) -> None:
        self._host.left(self)


class PeerServer(Factory):
    """Makes a pipe for every master that connects, up to a limit.

    Args:
        clock: Limits how long introductions take.
        host: The owner of the connections.
        is_secure: Whether they are TLS.
    """

    noisy = False

    def __init__(self, clock: Clock, host: Host, *, is_secure: bool) -> None:
        self._make: Callable[[], PeerPipe] = partial(PeerPipe, clock, host, is_secure=is_secure)
        self._admission = Admission(MOST_PEERS)

    def buildProtocol(self, addr: IAddress | None) -> PeerPipe | None:
        """Return a new pipe, or None when there are enough."""
        if self._admission.is_full:
            return None
        pipe = self._make()
        self._admission.admit(pipe, addr)
        return pipe

    def forget(self, pipe: PeerPipe) -> None:
        """A connection is gone."""
        self._admission.forget(pipe)

    def hang_up(self) -> None:
        """Close all connections."""
        self._admission.hang_up()


async def dialled(reactor: INetworkReactor, endpoint: Endpoint, host: Host) -> PeerPipe:
    """Connect to another master.

    Args:
        reactor: Connects.
        endpoint: Where it listens, with our credentials.
        host: The owner of the connection.

    Returns:
        A connection whose handshake is over; the identity of its other end is still to be proved.

    Raises:
        Exception: Whatever Twisted or OpenSSL says of a connection that does not come to be.
    """
    stands: Deferred[None] = Deferred()
    is_secure = endpoint.credentials is not None
    pipe = PeerPipe(reactor, host, is_secure=is_secure, stands=stands)
    await endpoint.connect(reactor, PipeFactory(pipe), INTRODUCTION)
    try:
        await stands
    except BaseException:
        pipe.close()
        raise
    return pipe
