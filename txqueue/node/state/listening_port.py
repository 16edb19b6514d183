"""A port of the node, from the start of its service to the end."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.node.state.lifecycle import Lifecycle
from txqueue.wire.endpoints import Endpoint, INetworkReactor

__all__ = ["ListeningPort"]


class ListeningPort:
    """Listens at an endpoint, and stops the node if that fails.

    Args:
        reactor: Opens the port.
        endpoint: The endpoint's address.
        lifecycle: Stops the node.
    """

    log = Logger()

    def __init__(self, reactor: INetworkReactor, endpoint: Endpoint, lifecycle: Lifecycle) -> None:
        self._reactor = reactor
        self._endpoint = endpoint
        self._lifecycle = lifecycle
        self._listening: Deferred[Any] = succeed(None)

    def open(self, server: Factory) -> None:
        """Start to listen for connections, which the server handles."""
        self._listening = self._endpoint.listen(self._reactor, server)
        self._listening.addErrback(self._cannot_listen)

    def close(self) -> Deferred[None]:
        """Stop listening; harmless if it does not listen."""
        return self._listening.addCallback(
            lambda port: None if port is None else port.stopListening()
        )

    def _cannot_listen(self, failure: Failure) -> None:
        self.log.critical(
            "cannot listen at {endpoint}: {error}; this node stops",
            endpoint=self._endpoint,
            error=failure.value,
        )
        self._lifecycle.fail()
