"""The probes over HTTP: ``/livez`` and ``/readyz``, each one line of text, without a query."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from twisted.web import resource, server

from txqueue.health.reporter import HealthReporter
from txqueue.wire.bounded_server import BoundedServer
from txqueue.wire.steady_http import SteadyRequest

__all__ = ["Probe", "ProbeSite", "add_probes", "probe_server"]

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


class ProbeSite(server.Site):
    """An HTTP server that logs no requests: a probe asks every few seconds."""

    noisy = False
    requestFactory = SteadyRequest

    def log(self, request: object) -> None:
        """Do nothing."""


def add_probes(root: resource.Resource, reporter: HealthReporter) -> None:
    """Serve ``/livez`` and ``/readyz`` below a resource.

    Args:
        root: The root of an HTTP server.
        reporter: Reports the health.
    """
    root.putChild(b"livez", Probe(_live))
    root.putChild(b"readyz", Probe(lambda: _ready(reporter)))


def probe_server(reactor: Any, reporter: HealthReporter) -> BoundedServer:
    """Return an HTTP server with the probes only.

    Args:
        reactor: Times silent connections.
        reporter: Reports the health.
    """
    root = Probe(_unknown)
    add_probes(root, reporter)
    return BoundedServer(reactor, ProbeSite(root, reactor=reactor, timeout=IDLE), MOST_CONNECTED)


def _unknown() -> Answer:
    return HTTPStatus.NOT_FOUND, "not found: ask for /livez or /readyz"


def _live() -> Answer:
    """Answer that the reactor runs, which the answer itself shows."""
    return HTTPStatus.OK, "live"


def _ready(reporter: HealthReporter) -> Answer:
    health = reporter.report()
    status = HTTPStatus.OK if health.ready else HTTPStatus.SERVICE_UNAVAILABLE
    return status, health.reason
