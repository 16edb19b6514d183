"""The health of a master: probes over HTTP, a port for them, and notices for service managers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.web import resource, server

from txqueue.policy.health import Health
from txqueue.system.clock import Clock, Timer
from txqueue.system.service_manager import ServiceManager
from txqueue.wire.endpoints import Endpoint
from txqueue.wire.http_server import BoundedServer, HttpService, QuietSite

Report = Callable[[], Health]
"""Returns the health of the process now, at once and without a query."""

# Probes ask one question per connection: more connections than this are a fault or an attack.
MOST_CONNECTED = 64
# Seconds after which a silent connection is closed.
IDLE = 10
_METHODS = (b"GET", b"HEAD")
Answer = tuple[HTTPStatus, str]


class Probe(resource.Resource):
    """Answers GET and HEAD with a status and one line of text.

    Args:
        answer: Returns the status and the line.
    """

    def __init__(self, answer: Callable[[], Answer]) -> None:
        super().__init__()
        self._answer = answer

    def getChild(self, path: bytes, request: server.Request) -> resource.Resource:  # noqa: ARG002
        """Answer that there is no page below."""
        return Probe(_unknown)

    def render(self, request: server.Request) -> bytes:
        """Answer; HEAD without the line."""
        if request.method in _METHODS:
            return self._written(request, *self._answer())
        request.setHeader(b"allow", b", ".join(_METHODS))
        return self._written(request, HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")

    def _written(self, request: server.Request, status: HTTPStatus, line: str) -> bytes:
        request.setResponseCode(status)
        request.setHeader(b"server", b"txqueue")
        request.setHeader(b"content-type", b"text/plain; charset=utf-8")
        request.setHeader(b"cache-control", b"no-store")
        # Twisted would log that it leaves out the text of an answer to HEAD.
        return b"" if request.method == b"HEAD" else f"{line}\n".encode()


def probe_server(reactor: Any, report: Report) -> BoundedServer:
    """Return an HTTP server with the probes, ``/livez`` and ``/readyz``.

    Args:
        reactor: Times silent connections.
        report: Reports the health.
    """
    root = Probe(_unknown)
    # The answer itself shows that the reactor runs.
    root.putChild(b"livez", Probe(lambda: (HTTPStatus.OK, "live")))
    root.putChild(b"readyz", Probe(lambda: _ready(report())))
    return BoundedServer(QuietSite(root, reactor=reactor, timeout=IDLE), MOST_CONNECTED)


def _unknown() -> Answer:
    return HTTPStatus.NOT_FOUND, "not found: ask for /livez or /readyz"


def _ready(health: Health) -> Answer:
    status = HTTPStatus.OK if health.ready else HTTPStatus.SERVICE_UNAVAILABLE
    return status, health.reason


# Seconds between two looks at the health, unless the watchdog needs shorter ones.
EVERY = 5.0
# Seconds between two looks until the start is reported.
WHILE_STARTING = 0.25
# A request for more time covers this many intervals, so that a late one does no harm.
COVERS = 6


class ServiceNotices(Service):
    """Sends messages to the service manager, timed by the master's reactor.

    A reactor that is stuck sends none, so the watchdog of the service manager ends the process.

    Args:
        clock: The master's reactor.
        manager: The service manager.
        report: Reports the health.
    """

    log = Logger()

    def __init__(self, clock: Clock, manager: ServiceManager, report: Report) -> None:
        self._clock = clock
        self._manager = manager
        self._health = report
        self._every = EVERY if manager.watchdog is None else min(EVERY, manager.watchdog / 2)
        self._is_up = False
        self._is_stopping = False
        self._reason: str | None = None
        self._timer: Timer | None = None

    def startService(self) -> None:
        """Start to look at the health."""
        super().startService()
        self._look()

    def begin_stop(self) -> None:
        """Report that the stop has begun; from now on each look asks for more time."""
        self._is_stopping = True
        self._reason = self._health().reason
        self._manager.stopping(self._reason)
        self._look()

    def stopService(self) -> None:
        """Send no more messages."""
        super().stopService()
        self._cancel()

    def _look(self) -> None:
        self._cancel()
        health = self._health()
        if self._manager.watchdog is not None:
            self._manager.alive()
        if self._is_stopping:
            # Running jobs may take longer than the service manager waits by itself.
            self._manager.extend(self._every * COVERS)
        self._report(health)
        interval = self._every if self._is_up else min(WHILE_STARTING, self._every)
        self._timer = self._clock.callLater(interval, self._look)

    def _report(self, health: Health) -> None:
        if health.ready and not self._is_up:
            self._is_up = self._manager.ready(health.reason)
            if not self._is_up:
                self.log.warn("the service manager at NOTIFY_SOCKET does not take messages")
        elif health.reason == self._reason or not self._manager.status(health.reason):
            return
        self._reason = health.reason

    def _cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()


class HealthServer(HttpService):
    """Serves the probes over HTTP.

    Args:
        reactor: Opens the port.
        endpoint: Where to listen.
        report: Reports the health.
    """

    def __init__(self, reactor: Any, endpoint: Endpoint, report: Report) -> None:
        probes = probe_server(reactor, report)
        super().__init__(reactor, endpoint, probes, "the server of health probes")

    def stopService(self) -> Deferred[None]:
        """Stop listening, and close all connections."""
        self._server.hang_up()
        return super().stopService()


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
