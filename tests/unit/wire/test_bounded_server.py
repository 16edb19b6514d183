"""A bound on the connections of any server, and descriptors that no connection takes."""

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import StringTransport

from tests.fixtures.leftovers import LoggedFailures
from txqueue.system import descriptors
from txqueue.system.descriptors import free_descriptors, has_spare_descriptors
from txqueue.wire.guarded_pipes import Admission
from txqueue.wire.http_server import BoundedServer
from txqueue.wire.pipe import DescriptorGuard

CROWD, OTHER = "198.51.100.9", "192.0.2.1"


def server(most: int, *, has_spare: bool = True) -> BoundedServer:
    """A server of nothing."""
    return BoundedServer(Factory.forProtocol(Protocol), most, DescriptorGuard(lambda: has_spare))


def connected(bounded: BoundedServer, host: str) -> StringTransport | None:
    """Connect from an address; returns the transport, None if the connection is refused."""
    protocol: Any = bounded.buildProtocol(IPv4Address("TCP", host, 1))
    if protocol is None:
        return None
    transport = StringTransport()
    protocol.makeConnection(transport)
    return transport


def test_a_crowd_closes_only_its_own_connections() -> None:
    """The oldest one of the peer that has the most makes room for a new one of any peer."""
    bounded = server(4)
    own = connected(bounded, OTHER)
    crowd = [connected(bounded, CROWD) for _ in range(6)]
    assert own is not None
    assert not own.disconnected
    assert [each.disconnected for each in crowd if each] == [True] * 3 + [False] * 3
    another = connected(bounded, "203.0.113.5")
    assert another is not None
    assert not own.disconnected


def test_connections_that_do_not_close_are_bounded_too() -> None:
    """An evicted one has its descriptor until its transport reports the end."""
    bounded = server(4)
    ends = [connected(bounded, CROWD) for _ in range(200)]
    assert len([each for each in ends if each is not None]) < 50
    for protocol in list(bounded.protocols):
        protocol.connectionLost(None)
    assert connected(bounded, CROWD) is not None


def test_without_spare_descriptors_no_connection_is_accepted(
    logged_failures: LoggedFailures,
) -> None:
    """Neither of a site nor of operators, applications and peers."""
    assert connected(server(4, has_spare=False), OTHER) is None
    assert Admission(lambda: None, 4, DescriptorGuard(lambda: False)).is_full
    assert not Admission(lambda: None, 4, DescriptorGuard(lambda: True)).is_full


def test_while_descriptors_run_low_a_new_connection_replaces_another() -> None:
    """So that a crowd does not shut others out."""
    has_spare = True
    bounded = BoundedServer(Factory.forProtocol(Protocol), 9, DescriptorGuard(lambda: has_spare))
    crowd = [connected(bounded, CROWD) for _ in range(3)]
    has_spare = False
    own = connected(bounded, OTHER)
    assert own is not None
    assert not own.disconnected
    assert [each.disconnected for each in crowd if each] == [True, False, False]


@pytest.fixture
def low_limit() -> Iterator[int]:
    """A limit of descriptors that a test can reach."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = len(descriptors.open_descriptors()) + 300
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_some_descriptors_are_kept_for_the_process(low_limit: int) -> None:
    """Long before the last one is used."""
    assert has_spare_descriptors()
    with ExitStack() as opened:
        while has_spare_descriptors():
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        assert has_spare_descriptors(is_essential=True)
        assert free_descriptors() == pytest.approx(min(128, low_limit // 4), abs=3)
    assert has_spare_descriptors()
