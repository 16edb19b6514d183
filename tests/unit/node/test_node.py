"""A node's services."""

from pathlib import Path
from typing import Any, cast

from twisted.internet.task import Clock

from tests.unit.node.doubles import Loop
from txqueue.node.node import Node
from txqueue.node.settings import NodeSettings
from txqueue.wire.endpoints import Endpoint


class Reactor(Clock, Loop):
    """A reactor on which nothing happens."""

    def __init__(self) -> None:
        Clock.__init__(self)
        Loop.__init__(self)

    def spawnProcess(self, *_: object, **__: object) -> None:
        """No process is started."""
        raise AssertionError

    def adoptStreamConnection(self, *_: object) -> None:
        """Nor a connection made."""
        raise AssertionError


def settings() -> NodeSettings:
    """How a node runs that has peers and an endpoint for operators."""
    return NodeSettings("", [], admin=Endpoint(Path("/nowhere/a.sock")), listen=Endpoint(None, 1))


def test_a_node_has_all_services() -> None:
    """Made once each; nothing happens before it starts."""
    reactor = Reactor()
    node = Node(cast("Any", reactor), settings())
    names = [service.name for service in node]
    assert len(names) == len({*names}) == 19
    assert None not in names
    assert (reactor.getDelayedCalls(), node.has_failed) == ([], False)


def test_a_node_without_peers_and_operators_has_neither() -> None:
    """It is as complete."""
    assert len(list(Node(cast("Any", Reactor()), NodeSettings("", [])))) == 17
