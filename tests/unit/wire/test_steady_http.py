"""HTTP requests that arrive many at a time, as only an attacker sends them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.web import resource, server

from txqueue.wire import http_server as steady_http
from txqueue.wire.http_server import MOST_AHEAD, MOST_PIECES, PIECE, BoundedServer, SteadyRequest

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
MANY = 2_000


class Turning(Clock):
    """A clock that makes one turn of a reactor at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._next: list[Callable[[], object]] = []

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kw: object
    ) -> Any:
        """Make a call in the next turn, or after a while."""
        if delay > 0:
            return super().callLater(delay, callable, *args, **kw)
        self._next.append(partial(callable, *args, **kw))
        return None

    def turn(self) -> None:
        """Make the calls of a turn."""
        due, self._next = self._next, []
        for call in due:
            call()


class Page(resource.Resource):
    """Counts its requests; answers each at once, or later."""

    isLeaf = True

    def __init__(self, clock: Clock, *, is_late: bool) -> None:
        super().__init__()
        self._clock, self._is_late = clock, is_late
        self.begun = self.open = self.most_open = 0

    def render(self, request: server.Request) -> bytes | int:
        """Answer."""
        self.begun += 1
        if not self._is_late:
            return b"x"
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        self._clock.callLater(0, self._finish, request)
        return server.NOT_DONE_YET

    def _finish(self, request: server.Request) -> None:
        self.open -= 1
        request.finish()


class Site(server.Site):
    """An HTTP server without a log."""

    requestFactory = SteadyRequest

    def log(self, request: object) -> None:
        """Do nothing."""


def connected(clock: Clock, page: Page, connections: int = 1) -> list[tuple[Any, StringTransport]]:
    """Connections to a server of the page, each with its transport."""
    bounded = BoundedServer(clock, Site(page, reactor=clock), connections)
    made = []
    for number in range(connections):
        protocol: Any = bounded.buildProtocol(IPv4Address("TCP", f"10.0.{number}.1", 1))
        transport = StringTransport()
        protocol.makeConnection(transport)
        made.append((protocol, transport))
    return made


@pytest.mark.parametrize("is_late", [False, True])
def test_requests_sent_ahead_wait_for_their_turn(
    monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """A turn answers a bounded number of those of all connections; each is answered in the end."""
    monkeypatch.setattr(steady_http, "BUDGET", 60.0)
    clock = Turning()
    page = Page(clock, is_late=is_late)
    ends = connected(clock, page, connections=5)
    for protocol, _ in ends:
        protocol.dataReceived(REQUEST * MANY)
    a_turn = MOST_PIECES * (PIECE // len(REQUEST) + 1)
    assert 0 < page.begun <= a_turn
    turns = 0
    while page.begun < MANY * len(ends) or page.open:
        before = page.begun
        clock.turn()
        turns += 1
        assert page.begun - before <= a_turn + len(ends) * (PIECE // len(REQUEST) + 1)
        assert turns < 10 * MANY
    assert turns > 10
    assert page.most_open <= len(ends)
    for protocol, transport in ends:
        assert transport.value().count(b"HTTP/1.1 200") == MANY
        protocol.connectionLost(None)


def test_a_turn_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its time is over no further request is answered in it."""
    monkeypatch.setattr(steady_http, "BUDGET", 0.0)
    clock = Clock()
    page = Page(clock, is_late=False)
    [(protocol, _)] = connected(clock, page)
    protocol.dataReceived(REQUEST * 50)
    assert page.begun == 0
    monkeypatch.setattr(steady_http, "BUDGET", 60.0)
    clock.advance(0)
    assert page.begun == 50
    protocol.connectionLost(None)


def test_a_connection_that_sends_too_much_ahead_is_closed() -> None:
    """Memory is bounded, too."""
    clock = Clock()
    [(protocol, transport)] = connected(clock, Page(clock, is_late=True))
    protocol.dataReceived(REQUEST * (MOST_AHEAD // len(REQUEST) + 2))
    assert transport.disconnected
    protocol.connectionLost(None)
    clock.advance(0)
    assert not clock.getDelayedCalls()


def test_a_peer_that_leaves_is_forgotten() -> None:
    """What it sent ahead begins no request."""
    clock = Clock()
    page = Page(clock, is_late=False)
    [(protocol, _)] = connected(clock, page)
    protocol.dataReceived(REQUEST * MANY)
    begun = page.begun
    protocol.connectionLost(None)
    for _ in range(3):
        clock.advance(0)
    assert page.begun == begun < MANY
