"""The node's admin endpoint: serves operators and applications, even without the database."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from twisted.application.service import Service
from twisted.internet.defer import Deferred

from txqueue.node.state.collaborators import Description
from txqueue.node.state.lifecycle import Lifecycle
from txqueue.node.state.listening_port import ListeningPort
from txqueue.policy.health import Health
from txqueue.wire.admin_commands import GetHealth
from txqueue.wire.authenticated import CertifiedPipe, UncertifiedPipe
from txqueue.wire.connection_limits import GuardedServer
from txqueue.wire.endpoints import Endpoint, INetworkReactor
from txqueue.wire.pipe import Pipe, PipeServer, Responders
from txqueue.wire.worker_commands import Inspect

__all__ = ["AdminEndpoint", "Guests", "Operators", "OwnState"]

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


class OwnState(Description, Protocol):
    """The node's description of itself, and its health."""

    def health(self) -> Health:
        """Return whether the node is live and ready, without a query."""


class AdminEndpoint(Service):
    """Listens at the node's admin endpoint.

    Args:
        reactor: Opens the port.
        endpoint: The endpoint's address.
        description: The node's description of itself, and its health.
        lifecycle: Stops the node if it cannot listen.
        operators: Serves operators.
        guests: Lets applications join, only at a unix socket, which no other account can open.
    """

    name = "admin"

    def __init__(
        self,
        reactor: INetworkReactor,
        endpoint: Endpoint,
        *,
        description: OwnState,
        lifecycle: Lifecycle,
        operators: Operators,
        guests: Guests,
    ) -> None:
        self._reactor = reactor
        self._endpoint = endpoint
        self._description = description
        self._operators = operators
        self._guests = guests
        self._port = ListeningPort(reactor, endpoint, lifecycle)
        self._server = self._made_server()

    def startService(self) -> None:
        """Start listening."""
        super().startService()
        self._port.open(self._server)

    def stopService(self) -> Deferred[None]:
        """Stop listening, and close all connections."""
        super().stopService()
        self._server.hang_up()
        return self._port.close()

    def _made_server(self) -> PipeServer:
        answers: Responders = {Inspect: self._inspect, GetHealth: self._get_health}
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

    def _get_health(self) -> dict[str, Any]:
        return {"health": json.dumps(self._description.health().as_dict())}


def _nothing() -> None:
    """Do nothing."""
