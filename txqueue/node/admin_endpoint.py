"""Answers questions about the node, whether the database answers or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.wire.authenticated import CertifiedPipe, UncertifiedPipe
from txqueue.wire.connection_limits import GuardedServer
from txqueue.wire.endpoints import Endpoint
from txqueue.wire.pipe import Greet, Pipe, PipeServer, Responders
from txqueue.wire.worker_commands import Inspect

__all__ = ["AdminEndpoint"]

# Applications that have joined the node stay connected.
MOST_CONNECTED = 256


class AdminEndpoint(Service):
    """Listens at the node's admin endpoint.

    Args:
        reactor: Listens.
        endpoint: Where.
        describe: Returns what is to be said of the node: plain data, no secret.
        failed: Called when it cannot listen.
        responders: Returns what operators may ask and do over a connection.
        greet: Called with each new pipe; returns the further commands that it may send.
    """

    name = "admin"
    log = Logger()

    def __init__(
        self,
        reactor: Any,
        endpoint: Endpoint,
        describe: Callable[[], Mapping[str, Any]],
        failed: Callable[[], None],
        *,
        responders: Callable[[Pipe], Responders],
        greet: Greet | None = None,
    ) -> None:
        self._reactor = reactor
        self._endpoint = endpoint
        self._describe = describe
        self._failed = failed
        self._listening: Deferred[Any] | None = None
        self._responders = responders
        self._greet = greet
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
            return PipeServer(answers, MOST_CONNECTED, self._greeted)
        kind = UncertifiedPipe if self._endpoint.credentials is None else CertifiedPipe
        make = partial(kind, self._reactor)
        return GuardedServer(answers, MOST_CONNECTED, self._greeted, make)

    def _greeted(self, pipe: Pipe) -> tuple[Responders, Callable[[], None]]:
        more, left = self._greet(pipe) if self._greet is not None else ({}, _nothing)
        return {**more, **self._responders(pipe)}, left

    def _inspect(self) -> dict[str, Any]:
        return {"node": json.dumps(self._describe())}

    def _cannot_listen(self, failure: Failure) -> None:
        self.log.critical(
            "cannot listen at {endpoint}: {error}; this node stops",
            endpoint=self._endpoint,
            error=failure.value,
        )
        self._failed()


def _closed(port: Any) -> Any:
    return None if port is None else port.stopListening()


def _nothing() -> None:
    """Do nothing."""
