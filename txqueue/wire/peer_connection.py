"""Connections between masters: no command is executed before the peer is identified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.protocol import connectionDone
from twisted.protocols.amp import Command
from twisted.python.failure import Failure
from zope.interface import implementer

from txqueue.system.clock import Clock
from txqueue.wire.commands import Hello
from txqueue.wire.endpoints import Endpoint, INetworkReactor
from txqueue.wire.limits import INTRODUCTION, GuardedPipe
from txqueue.wire.pipe import PipeFactory, Responder, closed
from txqueue.wire.tls import NODE, peer_name

MOST_PEERS = 1_024


Handlers = Mapping[type[Command], Callable[..., Any]]
"""The handler of each command; it gets the pipe first."""


@implementer(IHandshakeListener)
class PeerPipe(GuardedPipe):
    """One end of a connection between two masters.

    Args:
        clock: Times out the identification.
        handlers: The handlers of the connection's owner.
        lost: Called with the pipe, once, when the connection is closed.
        is_secure: Whether the connection is TLS.
        setup: Fires when commands can be sent; None if no caller waits for that.

    Attributes:
        certified: The node named in the peer's certificate; None without TLS.
    """

    def __init__(
        self,
        clock: Clock,
        handlers: Handlers,
        lost: Callable[[PeerPipe], None],
        *,
        is_secure: bool,
        setup: Deferred[None] | None = None,
    ) -> None:
        self._is_secure = is_secure
        self._setup = setup
        self.certified: str | None = None
        super().__init__(
            clock,
            {command: partial(handler, self) for command, handler in handlers.items()},
            lost=partial(lost, self),
        )

    def connectionMade(self) -> None:
        """Start the timeout for the peer's identification."""
        super().connectionMade()
        if not self._is_secure:
            self._ready()

    def handshakeCompleted(self) -> None:
        """Read the node's name from the peer's verified certificate."""
        certified = peer_name(self.transport)
        if certified is None or certified[0] != NODE:
            self.drop("its certificate is not a node's")
            return
        self.certified = certified[1]
        self._ready()

    def locateResponder(self, name: bytes) -> Responder | None:
        """Return the handler of a command; only `Hello` for an unidentified peer."""
        if not self.is_known and name != Hello.commandName:
            self.drop("sent a command before it was identified")
            return None
        return super().locateResponder(name)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Fail the Deferreds of callers that wait for the connection or an answer."""
        setup, self._setup = self._setup, None
        super().connectionLost(reason)
        if setup is not None:
            setup.errback(closed(reason))

    def _ready(self) -> None:
        if self.is_closed:
            return
        self.watch_reading()
        setup, self._setup = self._setup, None
        if setup is not None:
            setup.callback(None)


async def dialled(
    reactor: INetworkReactor,
    endpoint: Endpoint,
    handlers: Handlers,
    lost: Callable[[PeerPipe], None],
) -> PeerPipe:
    """Connect to another master.

    Args:
        reactor: Connects.
        endpoint: The peer's endpoint, with this node's credentials.
        handlers: The handlers of the connection's owner.
        lost: Called with the pipe, once, when the connection is closed.

    Returns:
        A connection after its TLS handshake; the peer is not identified yet.

    Raises:
        Exception: The error of Twisted or OpenSSL if the connection fails.
    """
    setup: Deferred[None] = Deferred()
    is_secure = endpoint.credentials is not None
    pipe = PeerPipe(reactor, handlers, lost, is_secure=is_secure, setup=setup)
    await endpoint.connect(reactor, PipeFactory(pipe), INTRODUCTION)
    try:
        await setup
    except BaseException:
        pipe.close()
        raise
    return pipe
