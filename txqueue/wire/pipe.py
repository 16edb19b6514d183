"""AMP connections: boxes encoded without Twisted's calls for each key, prompt sends over a socket
of this host, and a guard that keeps descriptors for the process's own needs.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import ConnectionClosed, ConnectionLost
from twisted.internet.interfaces import IAddress, IPullProducer, ISystemHandle
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import ServerFactory, connectionDone
from twisted.logger import Logger
from twisted.protocols import amp
from twisted.python.failure import Failure
from zope.interface import implementer

from txqueue.system.descriptors import has_spare_descriptors

Box = dict[bytes, bytes]

_LONGEST_KEY = 255


class NoBox(Exception):
    """The received bytes are not an AMP box, or the box is larger than allowed."""


@define(eq=False)
class BoxReader:
    """Parses a stream of bytes into AMP boxes.

    A box has alternating keys and values, each after its length in two bytes, and ends with an
    empty key: https://docs.twisted.org/en/stable/api/twisted.protocols.amp.html.

    Attributes:
        most_bytes: The largest size of a box; larger ones are not buffered.
    """

    most_bytes: float = math.inf
    _rest: bytes = field(default=b"", init=False)
    _box: Box = field(factory=dict, init=False)
    _key: bytes | None = field(default=None, init=False)
    _size: int = field(default=0, init=False)

    def feed(self, data: bytes) -> Iterator[Box]:
        """Add received bytes; yield the complete boxes.

        Raises:
            NoBox: When bytes are not a valid box; after the boxes before them were yielded.
        """
        data = self._rest + data
        offset, end = 0, len(data)
        while end - offset >= 2:
            length = data[offset] << 8 | data[offset + 1]
            if self._key is None and length > _LONGEST_KEY:
                raise NoBox("sent bytes that are not a box")
            if self._size + length > self.most_bytes:
                raise NoBox("sent a box that is too large")
            next_offset = offset + 2 + length
            if next_offset > end:
                break
            string, offset = data[offset + 2 : next_offset], next_offset
            self._size += length + 2
            if self._key is not None:
                self._box[self._key] = string
                self._key = None
            elif length:
                self._key = string
            else:
                box, self._box, self._size = self._box, {}, 0
                yield box
        self._rest = data[offset:]


def box_bytes(box: Mapping[bytes, bytes]) -> bytes:
    """Return an AMP box as bytes.

    Raises:
        OverflowError: When a value has more than 65,535 bytes.
    """
    parts: list[bytes] = []
    for key, value in box.items():
        parts += (len(key).to_bytes(2), key, len(value).to_bytes(2), value)
    parts.append(b"\0\0")
    return b"".join(parts)


# Seconds between entries in the log.
_QUIET: Final = 60.0


class DescriptorGuard:
    """Refuses connections while the process has no descriptors to spare.

    Args:
        has_spare: Tells whether it has; by default for probes, operators and peers.
    """

    log = Logger()

    def __init__(self, has_spare: Callable[[], bool] | None = None) -> None:
        self._has_spare = has_spare or partial(has_spare_descriptors, is_essential=True)
        self._logged_at = float("-inf")

    @property
    def may_accept(self) -> bool:
        """Whether a connection may be accepted; a refusal is logged, once a minute."""
        if self._has_spare():
            return True
        now = time.monotonic()
        if now - self._logged_at >= _QUIET:
            self._logged_at = now
            self.log.warn(
                "connections are refused: nearly all descriptors of this process are in use, and"
                " the rest is kept for workers and the database; raise its limit (ulimit -n,"
                " LimitNOFILE=)"
            )
        return False


UnhandledCommand = amp.UnhandledCommand
"""Raised for a command that the other end, perhaps of an older version, does not have."""

Responders = Mapping[type[amp.Command], Callable[..., Any]]
Responder = Callable[[Box], Deferred[amp.AmpBox]]


@implementer(amp.IBoxSender, amp.IResponderLocator)
class Pipe(TwistedProtocol):
    """One end of an AMP connection, with a handler for each command, so that services need no AMP.

    A pipe reads and writes the boxes; Twisted's dispatcher handles commands with an answer.
    Commands without an answer bypass the dispatcher, which makes four Deferreds for each; a job
    takes three such commands. Measured side by side, a chunk of one job sent and received costs
    18 us of CPU time this way, 47 us with amp.AMP.

    Args:
        responders: The handler of each command.
        lost: Called once, when the connection is closed.

    Attributes:
        is_known: Whether the peer is identified, as it is over a unix socket.
    """

    is_known = True
    _log = Logger()

    def __init__(self, responders: Responders, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._boxes = BoxReader()
        self._commands: dict[bytes, tuple[type[amp.Command], Callable[..., Any]]] = {}
        self._dispatcher = amp.BoxDispatcher(self)
        self._dispatcher.startReceivingBoxes(self)
        self.learn(responders)

    @property
    def connection(self) -> Any:
        """The transport, plain or TLS; None before there is a connection."""
        return self.transport

    def learn(self, responders: Responders) -> None:
        """Add handlers of further commands."""
        for command, function in responders.items():
            self._commands[command.commandName] = command, function

    def say(self, command: type[amp.Command], **arguments: Any) -> Any:
        """Send a command; return a Deferred of its answer, or None if the command has no answer."""
        if command.requiresAnswer:
            return self._dispatcher.callRemote(command, **arguments)
        self.write(self.packed(command, arguments))
        return None

    def packed(self, command: type[amp.Command], arguments: dict[str, Any]) -> bytes:
        """Return a command without an answer as bytes."""
        box = {amp.COMMAND: command.commandName}
        for name, argument in command.arguments:
            argument.toBox(name, box, arguments, self)
        return box_bytes(box)

    def write(self, data: bytes) -> None:
        """Send bytes in the reactor's next turn."""
        self.connection.write(data)

    def close(self) -> None:
        """Close the connection, if there is one, after all data is sent."""
        if self.connection is not None:
            self.connection.loseConnection()

    def abort(self) -> None:
        """Close the connection, if there is one, at once."""
        if self.connection is not None:
            self.connection.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        """Process the boxes that the received bytes complete."""
        try:
            for box in self._boxes.feed(data):
                self.take(box)
        except NoBox as reason:
            self.refuse(str(reason))

    def refuse(self, reason: str) -> None:  # noqa: ARG002 - a guarded pipe logs it
        """Close the connection because of an invalid box."""
        self.close()

    def take(self, box: Box) -> None:
        """Execute a command, or process an answer."""
        entry = self._commands.get(box.get(amp.COMMAND, b""))
        if entry is None or amp.ASK in box:
            self.dispatch(box)
        else:
            self.hear(*entry, box)

    def dispatch(self, box: Box) -> None:
        """Pass a command or an answer to the dispatcher."""
        self._dispatcher.ampBoxReceived(amp.AmpBox(box))

    def hear(self, command: type[amp.Command], function: Callable[..., Any], box: Box) -> None:
        """Execute a command without an answer."""
        arguments: dict[str, Any] = {}
        try:
            # As the command's parseArguments does, which copies the box.
            for name, argument in command.arguments:
                argument.fromBox(name, box, arguments, self)
            answer = function(**arguments)
        except Exception:
            self.unhandledError(Failure())
            return
        if isinstance(answer, Deferred):
            answer.addErrback(self.unhandledError)

    # Calls by the dispatcher.

    def locateResponder(self, name: bytes) -> Responder | None:
        """Return the handler of a command."""
        entry = self._commands.get(name)
        return None if entry is None else partial(self._carry_out, *entry)

    def sendBox(self, box: amp.AmpBox) -> None:
        """Send a request or an answer."""
        self.write(box.serialize())

    def unhandledError(self, failure: Failure) -> None:
        """Close the connection because of a failed command or answer."""
        self._log.failure("a command or an answer failed; closing the connection", failure)
        self.close()

    def _carry_out(
        self, command: type[amp.Command], function: Callable[..., Any], box: Box
    ) -> Deferred[amp.AmpBox]:
        """Execute a command that has an answer."""
        carrying_out = maybeDeferred(lambda: function(**command.parseArguments(box, self)))
        carrying_out.addCallback(lambda answer: command.makeResponse(answer, self))
        return carrying_out.addErrback(_listed, command)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Report the end of the connection to the owner and to callers that wait for answers."""
        self._dispatcher.stopReceivingBoxes(closed(reason))
        self._lost()


def _listed(failure: Failure, command: type[amp.Command]) -> Failure:
    """Return an error that a command lists in the form in which it is sent; raise any other."""
    codes = {**command.errors, **command.fatalErrors}
    kind = failure.trap(*codes)
    is_fatal = kind in command.fatalErrors
    return Failure(amp.RemoteAmpError(codes[kind], str(failure.value), is_fatal, local=failure))


class PipeFactory(ServerFactory):
    """A factory for a single connection, whose pipe its owner has made."""

    noisy = False

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def buildProtocol(self, addr: IAddress | None) -> Pipe:  # noqa: ARG002 - Twisted's
        """Return the pipe."""
        return self._pipe


def closed(reason: Failure) -> Failure:
    """Return why a connection ended; an error of TLS becomes a `ConnectionLost` with its text."""
    if reason.check(ConnectionClosed):
        return reason
    error: Any = reason.value
    try:
        error_text = error.args[0][-1][-1]
    except (LookupError, TypeError):
        error_text = reason.getErrorMessage()
    return Failure(ConnectionLost(f"TLS: {error_text}"))


@implementer(IPullProducer)
class PromptPipe(Pipe):
    """One end of a connection over a unix socket, which hands a job over without delay.

    A transport of Twisted begins to send in the reactor's next turn. While it has nothing to send,
    the pipe can use the socket directly; the transport reports this to its pull producer, which is
    the pipe. Measured side by side, a job handed to an idle worker and reported back takes 61 us
    this way, 70 us in the reactor's next turn, and longer the more that turn has to do.

    Attributes:
        is_sent: Whether all data has been passed to the operating system.
    """

    def __init__(self, responders: Responders, lost: Callable[[], None]) -> None:
        super().__init__(responders, lost)
        self._socket: socket.socket | None = None
        self.is_sent = False

    def connectionMade(self) -> None:
        """Register for the transport's call when it has nothing left to send."""
        if ISystemHandle.providedBy(self.transport):
            handle: Any = self.transport.getHandle()
            self._socket = handle
            self.connection.registerProducer(self, False)

    def say_now(self, command: type[amp.Command], **arguments: Any) -> None:
        """Send a command without an answer: at once if the transport has nothing left to send."""
        self.say_each_now(command, [arguments])

    def say_each_now(self, command: type[amp.Command], calls: Iterable[dict[str, Any]]) -> None:
        """Send a command with each of the given arguments, as `say_now` does, all together."""
        data = b"".join(self.packed(command, arguments) for arguments in calls)
        if (count := self._send(data)) < len(data):
            self.write(data[count:])

    def _send(self, data: bytes) -> int:
        """Send what can be sent without the transport; return how many bytes that are."""
        if self._socket is None or not self.is_sent:
            return 0
        try:
            return self._socket.send(data)
        except OSError:
            # If the socket is full or closed, the transport waits for it or reports the end.
            return 0

    def write(self, data: bytes) -> None:
        """Send bytes in the reactor's next turn."""
        self.is_sent = False
        super().write(data)

    def sendBox(self, box: amp.AmpBox) -> None:
        """Send a request or an answer; close the connection after an answer that ends it."""
        super().sendBox(box)
        if isinstance(box, amp.QuitBox):
            self.close()

    def close(self) -> None:
        """Close the connection, if there is one, after all data is sent."""
        self._stop_watching()
        super().close()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Stop using the socket: another file may get its descriptor."""
        self._stop_watching()
        super().connectionLost(reason)

    def _stop_watching(self) -> None:
        # A transport that has a producer waits for it before it closes.
        if self._socket is not None and self.connection is not None:
            self._socket = None
            self.connection.unregisterProducer()

    # Calls by the transport.

    def resumeProducing(self) -> None:
        """Note that the transport has nothing left to send."""
        self.is_sent = True

    def stopProducing(self) -> None:
        """Do nothing: `connectionLost` reports the end too."""
