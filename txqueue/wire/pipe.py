"""AMP connections: the one between a master and a worker, and those to a node's endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionClosed, ConnectionLost
from twisted.internet.interfaces import IAddress, ITransport
from twisted.internet.protocol import Factory, connectionDone
from twisted.protocols import amp
from twisted.python.failure import Failure

from txqueue.wire.box_codec import Box, BoxReader, NoBox, box_bytes

__all__ = ["Greet", "Pipe", "PipeFactory", "PipeServer", "Responders", "closed"]

Responders = Mapping[type[amp.Command], Callable[..., Any]]
Greet = Callable[["Pipe"], tuple[Responders, Callable[[], None]]]


class Pipe(amp.AMP):
    """One end. What to do at each command is given, so that services need not know AMP.

    Args:
        responders: For each command the function that carries it out.
        lost: Called once when the connection is gone.
    """

    def __init__(self, responders: Responders, lost: Callable[[], None]) -> None:
        self._answers = {command.commandName: command for command in responders}
        self._responders = responders
        self._lost = lost
        self._boxes = BoxReader()
        super().__init__()

    def locateResponder(self, name: bytes) -> Any:
        """Find what carries out a command."""
        command = self._answers.get(name)
        if command is None:
            return super().locateResponder(name)
        return self._wrapWithSerialization(self._responders[command], command)

    def say(self, command: type[amp.Command], **arguments: Any) -> Any:
        """Send a command; returns a Deferred of its answer, or None if it has none."""
        if command.requiresAnswer:
            return self.callRemote(command, **arguments)
        box = {amp.COMMAND: command.commandName}
        for name, argument in command.arguments:
            argument.toBox(name, box, arguments, self)
        transport: Any = self.transport
        transport.write(box_bytes(box))
        return None

    def learn(self, responders: Responders) -> None:
        """Carry out more commands."""
        self._answers = {**self._answers, **{each.commandName: each for each in responders}}
        self._responders = {**self._responders, **responders}

    def say_now(self, command: type[amp.Command], **arguments: Any) -> Any:
        """Send a command without waiting for the reactor's next turn, where the transport can."""
        answer = self.say(command, **arguments)
        transport: Any = self.transport
        # One that is about to close must do so from the reactor.
        if hasattr(transport, "doWrite") and not transport.disconnecting:
            transport.doWrite()
        return answer

    # A job is three boxes that want no answer: AMP itself would make four Deferreds for each.

    def dataReceived(self, data: bytes) -> None:
        """Take the boxes that are complete now."""
        try:
            for box in self._boxes.feed(data):
                self.ampBoxReceived(box)
        except NoBox as reason:
            self.refuse(str(reason))

    def refuse(self, why: str) -> None:  # noqa: ARG002 - a guarded pipe logs it
        """Close the connection that sent what is no box."""
        transport: Any = self.transport
        transport.loseConnection()

    def ampBoxReceived(self, box: Box) -> None:
        """Carry out a command, or take an answer."""
        command = self._answers.get(box.get(amp.COMMAND, b""))
        if command is None or amp.ASK in box:
            super().ampBoxReceived(amp.AmpBox(box))
        else:
            self.hear(command, box)

    def hear(self, command: type[amp.Command], box: Box) -> None:
        """Carry out a command that wants no answer."""
        try:
            said = self._responders[command](**command.parseArguments(box, self))
        except Exception:
            self.unhandledError(Failure())
            return
        if isinstance(said, Deferred):
            said.addErrback(self.unhandledError)

    # AMP's own two methods do the same and log a line each, which a node has no use for.

    def makeConnection(self, transport: ITransport) -> None:
        """Begin."""
        amp.BinaryBoxProtocol.makeConnection(self, transport)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell the owner."""
        amp.BinaryBoxProtocol.connectionLost(self, closed(reason))
        self._lost()


class PipeFactory(Factory):
    """Hands out the one pipe that its owner made."""

    noisy = False

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def buildProtocol(self, addr: IAddress | None) -> Pipe:  # noqa: ARG002 - Twisted's
        """Return the pipe."""
        return self._pipe


class PipeServer(Factory):
    """Makes a pipe for each connection, up to a limit.

    Args:
        responders: For each command the function that carries it out.
        most: How many may be connected at a time; further ones are closed unanswered.
        greet: Called with each new pipe; returns what else is carried out for it alone, and what to
            call when it is gone.
        make: Makes a pipe; a guarded one for connections that are not trusted.
    """

    noisy = False

    def __init__(
        self,
        responders: Responders,
        most: int = 32,
        greet: Greet | None = None,
        make: Callable[[Responders, Callable[[], None]], Pipe] = Pipe,
    ) -> None:
        self._make = make
        self._responders = responders
        self._most = most
        self._greet = greet
        self._pipes: dict[Pipe, Callable[[], None]] = {}

    def buildProtocol(self, addr: IAddress | None) -> Pipe | None:  # noqa: ARG002 - Twisted's
        """Return a new pipe, or None when there are enough."""
        if len(self._pipes) >= self._most:
            return None
        pipe = self._make(self._responders, lambda: self._left(pipe))
        more, left = self._greet(pipe) if self._greet is not None else ({}, _nothing)
        pipe.learn(more)
        self._pipes[pipe] = left
        return pipe

    def _left(self, pipe: Pipe) -> None:
        self._pipes.pop(pipe)()

    def hang_up(self) -> None:
        """Close all connections."""
        for pipe in list(self._pipes):
            transport: Any = pipe.transport
            transport.abortConnection()


def closed(reason: Failure) -> Failure:
    """Return why a connection is gone, as a closed connection if it was TLS that ended it."""
    if reason.check(ConnectionClosed):
        return reason
    error: Any = reason.value
    try:
        said = error.args[0][-1][-1]
    except (LookupError, TypeError):
        said = reason.getErrorMessage()
    return Failure(ConnectionLost(f"TLS: {said}"))


def _nothing() -> None:
    """Do nothing."""
