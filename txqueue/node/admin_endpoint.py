"""The node's admin endpoint: serves operators and applications, even without the database."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.node.collaborators import Description
from txqueue.node.lifecycle import Lifecycle
from txqueue.wire.authenticated import CertifiedPipe, UncertifiedPipe
from txqueue.wire.connection_limits import GuardedServer
from txqueue.wire.endpoints import Endpoint, INetworkReactor
from txqueue.wire.pipe import Pipe, PipeServer, Responders
from txqueue.wire.worker_commands import Inspect

__all__ = ["AdminEndpoint", "Guests", "Operators"]

# No idle timeout: applications that have joined the node stay connected.
MOST_CONNECTED = 256


class Operators(Protocol):
    """Serves operators."""

    def responders(self, pipe: Pipe) -> Responders:
        """Return the handlers of the commands that a connection's operator may send."""


class Guests(Protocol):
    """Lets applications join the node."""

    def greet(self, pipe: Pipe) -> tuple[Responders, Callable[[], None]]:
        """Return the handlers of an application's commands, and a function to call when it
        disconnects.
        """


class AdminEndpoint(Service):
    """Listens at the node's admin endpoint.

    Args:
        reactor: Opens the port.
        endpoint: The endpoint's address.
        description: The node's description of itself.
        lifecycle: Stops the node if it cannot listen.
        operators: Serves operators.
        guests: Lets applications join, only at a unix socket, which no other account can open.
    """

    name = "admin"
    log = Logger()

    def __init__(
        self,
        reactor: INetworkReactor,
        endpoint: Endpoint,
        *,
        description: Description,
        lifecycle: Lifecycle,
        operators: Operators,
        guests: Guests,
    ) -> None:
        self._reactor = reactor
        self._endpoint = endpoint
        self._description = description
        self._lifecycle = lifecycle
        self._operators = operators
        self._guests = guests
        self._listening: Deferred[Any] | None = None
        self._server = self._made_server()

    def startService(self) -> None:
        """Start listening."""
        super().startService()
        self._listening = self._endpoint.listen(self._reactor, self._server)
        self._listening.addErrback(self._cannot_listen)

    def stopService(self) -> Deferred[None] | None:
        """Stop listening, and close all connections."""
        super().stopService()
        self._server.hang_up()
        return self._listening.addCallback(_closed) if self._listening is not None else None

    def _made_server(self) -> PipeServer:
        answers: Responders = {Inspect: self._inspect}
        if self._endpoint.path is not None:
            # A process that can open the socket runs under this account, and could do anything to
            # this process.
            return PipeServer(answers, MOST_CONNECTED, self._welcome)
        kind = UncertifiedPipe if self._endpoint.credentials is None else CertifiedPipe
        make = partial(kind, self._reactor)
        return GuardedServer(answers, MOST_CONNECTED, self._greet, make)

    def _greet(self, pipe: Pipe) -> tuple[Responders, Callable[[], None]]:
        return self._operators.responders(pipe), _nothing

    def _welcome(self, pipe: Pipe) -> tuple[Responders, Callable[[], None]]:
        """Serve an operator or an application of this account."""
        commands, left = self._guests.greet(pipe)
        return {**commands, **self._operators.responders(pipe)}, left

    def _inspect(self) -> dict[str, Any]:
        return {"node": json.dumps(self._description.describe())}

    def _cannot_listen(self, failure: Failure) -> None:
        self.log.critical(
            "cannot listen at {endpoint}: {error}; this node stops",
            endpoint=self._endpoint,
            error=failure.value,
        )
        self._lifecycle.fail()


def _closed(port: Any) -> Any:
    return None if port is None else port.stopListening()


def _nothing() -> None:
    """Do nothing."""
