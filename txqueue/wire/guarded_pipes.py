"""Pipes to programs that may be others than they say: of peers, and of ports for operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IAddress, IHandshakeListener, IPushProducer
from twisted.internet.protocol import Factory, connectionDone
from twisted.protocols.amp import (
    UNKNOWN_ERROR_CODE,
    AmpBox,
    Command,
    RemoteAmpError,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from txqueue.system.clock import Clock, Timer
from txqueue.wire.commands import Hello
from txqueue.wire.pipe import (
    Box,
    BoxReader,
    DescriptorGuard,
    Pipe,
    PipeFactory,
    Responder,
    Responders,
    closed,
)
from txqueue.wire.tls import NODE, peer_name

if TYPE_CHECKING:
    from txqueue.wire.endpoints import Endpoint, INetworkReactor

# Seconds in which a peer must identify itself.
INTRODUCTION = 5
# The most bytes of a box, for unidentified and identified peers; AMP has no limit.
STRANGER_BOX, LARGEST_BOX = 2_048, 1_048_576


@implementer(IPushProducer)
class GuardedPipe(Pipe):
    """A pipe that closes the connection when the peer breaks a rule.

    Args:
        clock: Times the timeouts.
        responders: The handler of each command.
        lost: Called once, when the connection is closed.

    Attributes:
        is_closed: Whether this end has closed the connection.
        why_dropped: The rule that the peer broke; None if it broke none.
    """

    is_known = False
    is_closed = False
    why_dropped: str | None = None
    _deadline: Timer | None = None

    def __init__(self, clock: Clock, responders: Responders, lost: Callable[[], None]) -> None:
        self._clock = clock
        super().__init__(responders, lost)
        self._boxes = BoxReader(STRANGER_BOX)

    def connectionMade(self) -> None:
        """Start the timeout for the peer's identification."""
        if self.is_closed:
            self.abort()
        else:
            self._wait(INTRODUCTION)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Cancel the timer."""
        self.is_closed = True
        _cancel(self._deadline)
        super().connectionLost(reason)

    def introduce(self) -> None:
        """Note that the peer is identified and may send any command."""
        self.is_known = True
        self._boxes.most_bytes = LARGEST_BOX
        _cancel(self._deadline)

    def drop(self, reason: str) -> None:
        """Close the connection at once because the peer broke a rule."""
        if not self.is_closed:
            self.why_dropped = reason
            self.abort()

    def abort(self) -> None:
        """Close the connection at once, and read nothing more."""
        self.is_closed = True
        _cancel(self._deadline)
        super().abort()

    def refuse(self, reason: str) -> None:
        """Close the connection because of an invalid or too large box."""
        self.drop(reason)

    def take(self, box: Box) -> None:
        """Process a box, unless the connection is closed."""
        if self.is_closed:
            return
        try:
            super().take(box)
        except Exception:
            # The box is neither a command nor an answer to one.
            self.drop("sent a box that is neither a command nor an answer")

    def hear(self, command: type[Command], function: Callable[..., Any], box: Box) -> None:  # noqa: ARG002 - found again
        """Execute a command without an answer, if the peer may send it: see `locateResponder`."""
        self.dispatch(box)

    def locateResponder(self, name: bytes) -> Responder | None:
        """Return the handler of a command."""
        responder = super().locateResponder(name)
        return None if responder is None else partial(self._blaming, responder)

    def _blaming(self, responder: Responder, box: Box) -> Deferred[AmpBox]:
        """Execute a command; an invalid one is the peer's fault and is not logged."""
        return maybeDeferred(responder, box).addErrback(self._not_carried_out)

    def sendBox(self, box: AmpBox) -> None:
        """Send a request or an answer, if the connection is still open."""
        if not self.is_closed:
            super().sendBox(box)

    def unhandledError(self, failure: Failure) -> None:
        """Close the connection because of an invalid argument, without a traceback."""
        self.drop(f"{type(failure.value).__name__} in its message")

    # Calls by the transport, about whether the peer reads what is sent.

    def watch_reading(self) -> None:
        """Read nothing while the peer does not read; over TLS only after the handshake."""
        if self.connection is not None:
            self.connection.registerProducer(self, True)

    def pauseProducing(self) -> None:
        """Stop reading from a peer that does not read."""
        if self.connection is not None and not self.is_closed:
            self.connection.pauseProducing()

    def resumeProducing(self) -> None:
        """Resume reading, as the peer has read all data."""
        if self.connection is not None and not self.is_closed:
            self.connection.resumeProducing()

    def stopProducing(self) -> None:
        """Do nothing: `connectionLost` reports the end too."""

    def _not_carried_out(self, failure: Failure) -> Failure:
        if failure.check(RemoteAmpError):
            return failure
        self.drop(f"{type(failure.value).__name__} in a command")
        return Failure(RemoteAmpError(UNKNOWN_ERROR_CODE, "not carried out"))

    def _wait(self, seconds: float) -> None:
        """Start a timeout for the peer."""
        _cancel(self._deadline)
        self._deadline = self._clock.callLater(
            seconds, self.drop, "did not identify itself in time"
        )


def _cancel(timer: Timer | None) -> None:
    if timer is not None and timer.active():
        timer.cancel()


# The most connections that are not identified yet.
MOST_STRANGERS = 32


def crowded_out(addresses: Sequence[str]) -> int:
    """Decide which unidentified connection to close for a new one.

    Args:
        addresses: The address of each connection, oldest first.

    Returns:
        The index of the oldest connection of the address that has the most connections.
    """
    crowds = Counter(addresses)
    return max(range(len(addresses)), key=lambda index: (crowds[addresses[index]], -index))


def network_of(address: str) -> str:
    """Return what an address counts with: itself, or its network of 64 bits for IPv6."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((parsed, 64), strict=False))


@define(eq=False, repr=False, slots=False)
class Admission(Factory):
    """Makes a pipe for each connection to one port, up to a limit.

    Args:
        make: Makes the pipe of a connection, or None if there may be no more.
        limit: The most identified connections; further ones are closed unanswered.
        descriptors: Refuses connections while descriptors run low.
    """

    noisy = False

    _make: Callable[[], Any]
    _limit: int
    _descriptors: DescriptorGuard = field(factory=DescriptorGuard)
    _from: dict[Pipe, str] = field(factory=dict, init=False)

    @property
    def is_full(self) -> bool:
        """Whether no connection can be accepted; evicted ones count until they are closed."""
        if not self._descriptors.may_accept:
            return True
        known_count = sum(pipe.is_known for pipe in self._from)
        return known_count >= self._limit or len(self._from) - known_count >= 2 * MOST_STRANGERS

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Return a new pipe, or None if the limit is reached; if too many are unidentified, evict
        the one that `crowded_out` chooses.
        """
        pipe = None if self.is_full else self._make()
        if pipe is not None:
            self._evict_stranger()
            self._from[pipe] = str(getattr(addr, "host", ""))
        return pipe

    def _evict_stranger(self) -> None:
        strangers = [
            pipe
            for pipe in self._from
            if isinstance(pipe, GuardedPipe) and not pipe.is_known and not pipe.is_closed
        ]
        if len(strangers) >= MOST_STRANGERS:
            index = crowded_out([self._from[stranger] for stranger in strangers])
            strangers[index].drop("evicted: too many connections are not identified")

    def forget(self, pipe: Pipe) -> None:
        """Forget a closed connection."""
        self._from.pop(pipe, None)

    def hang_up(self) -> None:
        """Close all connections."""
        for pipe in list(self._from):
            pipe.abort()


Greet = Callable[[Pipe], tuple[Responders, Callable[[], None]]]


class PipeServer(Admission):
    """Makes a pipe for each connection to a port, up to a limit.

    Args:
        responders: The handler of each command.
        limit: The most identified connections at a time; further ones are closed unanswered.
        greet: Called with each new pipe; returns further handlers for the pipe, and a function
            to call after it is closed.
        make_pipe: Makes a pipe; a guarded one for untrusted connections.
    """

    def __init__(
        self,
        responders: Responders,
        limit: int,
        greet: Greet,
        make_pipe: Callable[[Responders, Callable[[], None]], Pipe] = Pipe,
    ) -> None:
        super().__init__(self._greeted, limit)
        self._responders = responders
        self._greet = greet
        self._make_pipe = make_pipe
        self._on_close: dict[Pipe, Callable[[], None]] = {}

    def _greeted(self) -> Pipe:
        pipe = self._make_pipe(self._responders, lambda: self.forget(pipe))
        commands, self._on_close[pipe] = self._greet(pipe)
        pipe.learn(commands)
        return pipe

    def forget(self, pipe: Pipe) -> None:
        """Forget a closed connection."""
        super().forget(pipe)
        self._on_close.pop(pipe)()


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
        pipe.abort()
        raise
    return pipe


# Seconds for which a connection without a certificate stays open after a command, and the most
# commands of one: nothing identifies its peer.
IDLE, MOST_COMMANDS = 60, 200


@implementer(IHandshakeListener)
class CertifiedPipe(GuardedPipe):
    """The node's end of a TLS connection; it executes no command before the handshake is over."""

    def handshakeCompleted(self) -> None:
        """Check the name in the peer's verified certificate."""
        if peer_name(self.transport) is None:
            self.drop("its certificate has no name")
            return
        self.watch_reading()
        self.introduce()

    def locateResponder(self, name: bytes) -> Responder | None:
        """Return the handler of a command; None if the peer is not identified."""
        if not self.is_known:
            self.drop("sent a command before it showed a certificate")
            return None
        return super().locateResponder(name)


class UncertifiedPipe(GuardedPipe):
    """The node's end of a connection without TLS from this host; its peer is never identified."""

    _commands_taken = 0

    def connectionMade(self) -> None:
        """Start the timeout for the first command."""
        super().connectionMade()
        if not self.is_closed:
            self.watch_reading()

    def locateResponder(self, name: bytes) -> Responder | None:
        """Return the handler of a command, and allow a longer time for the next command."""
        self._commands_taken += 1
        if self._commands_taken > MOST_COMMANDS:
            self.drop("sent too many commands")
            return None
        self._wait(IDLE)
        return super().locateResponder(name)
