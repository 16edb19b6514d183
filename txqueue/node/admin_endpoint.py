"""Answers questions about the node, whether the database answers or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.node.lifecycle import Lifecycle
from txqueue.wire.authenticated import CertifiedPipe, UncertifiedPipe
from txqueue.wire.connection_limits import GuardedServer
from txqueue.wire.endpoints import Endpoint, INetworkReactor
from txqueue.wire.pipe import Pipe, PipeServer, Responders
from txqueue.wire.worker_commands import Inspect

__all__ = ["AdminEndpoint", "Description", "Guests", "Operators"]

# Applications that have joined the node stay connected.
MOST_CONNECTED = 256


class Description(Protocol):
    """What is to be said of the node."""

    def describe(self) -> Mapping[str, Any]:
        """Return it as plain data, without secrets."""


class Operators(Protocol):
    """Answers operators."""

    def responders(self, pipe: Pipe) -> Responders:
        """Return what the operator at the other end of a connection may ask and do."""


class Guests(Protocol):
    """Lets applications join the node."""

    def greet(self, pipe: Pipe) -> tuple[Responders, Callable[[], None]]:
        """Return what an application may say over a connection, and what to call at its end."""


class AdminEndpoint(Service):
    """Listens at the node's admin endpoint.

    Args:
        reactor: Listens.
        endpoint: Where.
        description: What is to be said of the node.
        lifecycle: Ends the node when it cannot listen.
        operators: Answers operators.
        guests: Lets applications join; at a unix socket only, which no other account reaches.
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
        """Begin to listen."""
        super().startService()
        self._listening = self._endpoint.listen(self._reactor, self._server)
        self._listening.addErrback(self._cannot_listen)

    def stopService(self) -> Deferred[None] | None:
        """Listen no more, and hang up."""
        super().stopService()
        self._server.hang_up()
        return self._listening.addCallback(_closed) if self._listening is not None else None

    def _made_server(self) -> PipeServer:
        answers: Responders = {Inspect: self._inspect}
        if self._endpoint.path is not None:
            # A process that reaches it has our own account, and could do anything to this process.
            return PipeServer(answers, MOST_CONNECTED, self._welcome)
        kind = UncertifiedPipe if self._endpoint.credentials is None else CertifiedPipe
        make = partial(kind, self._reactor)
        return GuardedServer(answers, MOST_CONNECTED, self._greet, make)

    def _greet(self, pipe: Pipe) -> tuple[Responders, Callable[[], None]]:
        return self._operators.responders(pipe), _nothing

    def _welcome(self, pipe: Pipe) -> tuple[Responders, Callable[[], None]]:
        """Greet an operator or an application of our own account."""
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
