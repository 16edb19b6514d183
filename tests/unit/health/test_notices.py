"""What the service manager receives, and when."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from tests.unit.health.test_site import READY, Reporter
from txqueue.health.service import MasterProcess, ServiceNotices
from txqueue.policy.health import Health
from txqueue.system.service_manager import ServiceManager

STARTING = Health(True, False, "starting")


class Inbox:
    """A service manager that keeps what it receives."""

    def __init__(self, path: Path) -> None:
        self.address = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.address)
        self.socket.setblocking(False)

    def read(self) -> list[str]:
        """Return the messages since the last call."""
        found = []
        while True:
            try:
                found.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return found


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Inbox]:
    """A service manager."""
    inbox = Inbox(tmp_path / "notify")
    with closing(inbox.socket):
        yield inbox


def test_a_node_that_starts_serves_and_stops(manager: Inbox) -> None:
    """READY once, the status whenever it changes, and more time while it drains."""
    clock, reporter = Clock(), Reporter(STARTING)
    notices = ServiceNotices(clock, ServiceManager(manager.address), reporter)
    notices.startService()
    clock.pump([0.25] * 4)
    assert manager.read() == ["STATUS=starting"]
    reporter.health = READY
    clock.pump([0.25, 5, 5])
    assert manager.read() == ["READY=1\nSTATUS=ready"]
    reporter.health = Health(True, False, "the database does not answer")
    clock.advance(5)
    assert manager.read() == ["STATUS=the database does not answer"]
    reporter.health = Health(True, False, "draining")
    notices.begin_stop()
    assert manager.read() == ["STOPPING=1\nSTATUS=draining", "EXTEND_TIMEOUT_USEC=30000000"]
    clock.advance(5)
    assert manager.read() == ["EXTEND_TIMEOUT_USEC=30000000"]
    notices.stopService()
    clock.advance(60)
    assert manager.read() == []
    assert not clock.getDelayedCalls()


def test_the_watchdog_is_fed_twice_per_period(manager: Inbox) -> None:
    """A clock that stands still feeds none."""
    clock = Clock()
    notices = ServiceNotices(clock, ServiceManager(manager.address, 4.0), Reporter(READY))
    notices.startService()
    assert manager.read() == ["WATCHDOG=1", "READY=1\nSTATUS=ready"]
    clock.pump([2.0] * 3)
    assert manager.read() == ["WATCHDOG=1"] * 3
    assert manager.read() == []


def test_a_short_watchdog_is_fed_while_the_node_starts(manager: Inbox) -> None:
    """Half a period even below the pause between two looks at a start."""
    clock = Clock()
    notices = ServiceNotices(clock, ServiceManager(manager.address, 0.2), Reporter(STARTING))
    notices.startService()
    clock.pump([0.1] * 5)
    assert manager.read().count("WATCHDOG=1") == 6


def test_a_service_manager_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    """The node goes on, and tries again."""
    clock = Clock()
    notices = ServiceNotices(clock, ServiceManager(str(tmp_path / "no")), Reporter(READY))
    notices.startService()
    clock.pump([0.25] * 3)
    inbox = Inbox(tmp_path / "no")
    with closing(inbox.socket):
        clock.advance(0.25)
        assert inbox.read() == ["READY=1\nSTATUS=ready"]


class Slow(Service):
    """A service that stops when the test says so."""

    def __init__(self) -> None:
        self.stopping: Deferred[None] = Deferred()

    def stopService(self) -> Deferred[None]:
        """Stop later."""
        super().stopService()
        return self.stopping


def test_reports_outlast_the_nodes() -> None:
    """The outer services start first and stop last; the stop is announced once it has begun."""
    node, probes = Slow(), Service()
    announced: list[tuple[bool, bool]] = []
    process = MasterProcess(
        [node], [probes], lambda: announced.append((bool(node.running), bool(probes.running)))
    )
    process.startService()
    assert (node.running, probes.running) == (1, 1)
    stopped = process.stopService()
    assert announced == [(False, True)]
    assert probes.running
    node.stopping.callback(None)
    assert not probes.running
    assert stopped.called
