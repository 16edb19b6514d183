"""AMP connections: between a master and a worker, and from clients to a node's endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, cast

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import ConnectionClosed, ConnectionLost
from twisted.internet.interfaces import IAddress, IProducer
from twisted.internet.protocol import Factory, ServerFactory, connectionDone
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.logger import Logger
from twisted.protocols import amp
from twisted.python.failure import Failure
from zope.interface import implementer

from txqueue.wire.box_codec import Box, BoxReader, NoBox, box_bytes
from txqueue.wire.descriptor_guard import DescriptorGuard

__all__ = [
    "Greet",
    "Pipe",
    "PipeFactory",
    "PipeServer",
    "Responders",
    "Transport",
    "UnhandledCommand",
    "closed",
]

UnhandledCommand = amp.UnhandledCommand
"""Raised for a command that the other end, perhaps of an older version, does not have."""

Responders = Mapping[type[amp.Command], Callable[..., Any]]
Greet = Callable[["Pipe"], tuple[Responders, Callable[[], None]]]
Responder = Callable[[Box], Deferred[amp.AmpBox]]


class Transport(Protocol):
    """A Twisted transport, plain or TLS: what pipes use of it, as Twisted has no such interface."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def loseConnection(self) -> None:
        """Close the connection after all data is sent."""

    def abortConnection(self) -> None:
        """Close the connection at once."""

    def pauseProducing(self) -> None:
        """Stop reading for now."""

    def resumeProducing(self) -> None:
        """Resume reading."""

    def registerProducer(self, producer: IProducer, streaming: bool) -> None:
        """Register an object that the transport calls when the peer stops or resumes reading."""

    def unregisterProducer(self) -> None:
        """Unregister the object of `registerProducer`."""


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
    """

    _log = Logger()

    def __init__(self, responders: Responders, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._boxes = BoxReader()
        self._commands: dict[bytes, tuple[type[amp.Command], Callable[..., Any]]] = {}
        self._dispatcher = amp.BoxDispatcher(self)
        self._dispatcher.startReceivingBoxes(self)
        self.learn(responders)

    @property
    def connection(self) -> Transport | None:
        """The transport; None before there is a connection."""
        return cast("Transport | None", self.transport)

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
        transport: Any = self.transport
        transport.write(data)

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


class PipeServer(Factory):
    """Makes a pipe for each connection, up to a limit.

    Args:
        responders: The handler of each command.
        limit: The most connections at a time; further ones are closed unanswered.
        greet: Called with each new pipe; returns further handlers for the pipe, and a function
            to call after it is closed.
        make_pipe: Makes a pipe; a guarded one for untrusted connections.
    """

    noisy = False

    def __init__(
        self,
        responders: Responders,
        limit: int = 32,
        greet: Greet | None = None,
        make_pipe: Callable[[Responders, Callable[[], None]], Pipe] = Pipe,
    ) -> None:
        self._make_pipe = make_pipe
        self._responders = responders
        self._limit = limit
        self._greet = greet
        self.descriptors = DescriptorGuard()
        self._pipes: dict[Pipe, Callable[[], None]] = {}

    def buildProtocol(self, addr: IAddress | None) -> Pipe | None:  # noqa: ARG002 - Twisted's
        """Return a new pipe, or None if the limit is reached or descriptors run low."""
        if len(self._pipes) >= self._limit or not self.descriptors.may_accept:
            return None
        pipe = self._make_pipe(self._responders, lambda: self.forget(pipe))
        commands, on_close = self._greet(pipe) if self._greet is not None else ({}, _nothing)
        pipe.learn(commands)
        self._pipes[pipe] = on_close
        return pipe

    def forget(self, pipe: Pipe) -> None:
        """Forget a closed connection."""
        self._pipes.pop(pipe)()

    def hang_up(self) -> None:
        """Close all connections."""
        for pipe in list(self._pipes):
            pipe.abort()


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


def _nothing() -> None:
    """Do nothing."""
