"""The probes over HTTP."""

from typing import Final

import pytest
from attrs import mutable
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from txqueue.health import service as site
from txqueue.health.service import probe_server
from txqueue.policy.health import Health

READY: Final = Health(True, True, "ready")


@mutable
class Reporter:
    """Reports the health that the test has set."""

    health: Health = READY

    def __call__(self) -> Health:
        """Return it."""
        return self.health


def answered(reporter: Reporter, request: str) -> tuple[int, str, bytes]:
    """Send a request line; return the status, the text and the head of the answer."""
    clock, transport = Clock(), StringTransport()
    protocol = probe_server(clock, reporter).buildProtocol(None)
    assert protocol is not None
    protocol.makeConnection(transport)
    protocol.dataReceived(f"{request} HTTP/1.0\r\n\r\n".encode())
    # On a busy machine the time of a turn is over before the request is read.
    clock.pump([0.0] * 10)
    head, _, body = transport.value().partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode(), head


def test_live_and_ready() -> None:
    """Only readiness depends on the reported health."""
    reporter = Reporter()
    assert answered(reporter, "GET /livez")[:2] == (200, "live\n")
    assert answered(reporter, "GET /readyz")[:2] == (200, "ready\n")
    reporter.health = Health(True, False, "the database does not answer")
    assert answered(reporter, "GET /livez")[:2] == (200, "live\n")
    assert answered(reporter, "GET /readyz")[:2] == (503, "the database does not answer\n")


def test_head_has_no_text() -> None:
    """And says not which program serves it, beyond the name."""
    status, body, head = answered(Reporter(), "HEAD /readyz")
    assert (status, body) == (200, "")
    assert b"Server: txqueue\r\n" in head
    assert b"no-store" in head


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("POST /livez", 405),
        ("DELETE /readyz", 405),
        ("GET /", 404),
        ("GET /livez/x", 404),
        ("GET /readyz/../admin", 404),
    ],
)
def test_other_requests_are_refused(request_line: str, status: int) -> None:
    """The port has these two pages, to be read only."""
    assert answered(Reporter(), request_line)[0] == status


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the oldest one is closed, and silent ones time out."""
    monkeypatch.setattr(site, "MOST_CONNECTED", 2)
    clock = Clock()
    server = probe_server(clock, Reporter())
    transports = [StringTransport() for _ in range(3)]
    for transport in transports:
        protocol = server.buildProtocol(None)
        assert protocol is not None
        protocol.makeConnection(transport)
    assert [each.disconnected for each in transports] == [True, False, False]
    clock.advance(site.IDLE)
    assert all(transport.disconnecting for transport in transports[1:])
