"""The port of the probes, and the order in which it and the nodes of a master start and stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from txqueue.health.reporter import HealthReporter
from txqueue.health.site import probe_server
from txqueue.wire.endpoints import Endpoint

__all__ = ["HealthServer", "MasterProcess"]


class HealthServer(Service):
    """Serves the probes over HTTP.

    A port that cannot be opened is logged, and the node runs: its jobs matter more than its probes.

    Args:
        reactor: Opens the port.
        endpoint: Where to listen.
        reporter: Reports the health.
    """

    log = Logger()

    def __init__(self, reactor: Any, endpoint: Endpoint, reporter: HealthReporter) -> None:
        self._reactor = reactor
        self._endpoint = endpoint
        self._server = probe_server(reactor, reporter)
        self._listening: Deferred[Any] = succeed(None)

    def startService(self) -> None:
        """Listen."""
        super().startService()
        self._listening = self._endpoint.listen(self._reactor, self._server)
        self._listening.addCallbacks(self._listens, self._cannot_listen)

    def stopService(self) -> Deferred[None]:
        """Stop listening, and close all connections."""
        super().stopService()
        self._server.hang_up()
        return self._listening.addCallback(
            lambda port: None if port is None else port.stopListening()
        )

    def _listens(self, port: Any) -> Any:
        self.log.info("the health probes answer at {endpoint}", endpoint=self._endpoint)
        return port

    def _cannot_listen(self, failure: Any) -> None:
        self.log.critical(
            "the health probes cannot listen at {endpoint}: {error}",
            endpoint=self._endpoint,
            error=failure.value,
        )


class MasterProcess(MultiService):
    """Runs nodes within services that report on them until the nodes have stopped.

    A draining node must still answer its probes: without an answer, a supervisor would kill it.

    Args:
        inner: The nodes, and what else stops with them.
        outer: The services that start before these and stop after them.
        begin_stop: Called when the stop begins.
    """

    def __init__(
        self,
        inner: Sequence[Service],
        outer: Sequence[Service],
        begin_stop: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._inner = MultiService()
        for service in inner:
            service.setServiceParent(self._inner)
        self._outer = outer
        self._begin_stop = begin_stop
        for service in (*outer, self._inner):
            service.setServiceParent(self)

    def stopService(self) -> Deferred[None]:
        """Stop the inner services, then the outer ones."""
        self.running = False
        stopped = Deferred.fromCoroutine(self._stop())
        # By now the nodes are draining, and their health says so.
        self._begin_stop()
        return stopped

    async def _stop(self) -> None:
        for service in (self._inner, *self._outer):
            stopped = service.stopService()
            if stopped is not None:
                await stopped
