"""Services that failed without the database try again when an attempt to connect is due."""

from itertools import pairwise

import pytest
from attrs import define, field
from twisted.internet.task import Clock

from txqueue.errors import DatabaseUnavailable
from txqueue.node.state.periodic import Outage, Periodic
from txqueue.store.driver.reconnecting import LONGEST, ReconnectBackoff


@define
class Database:
    """A database that is up or down, and when a connection was attempted."""

    clock: Clock
    backoff: ReconnectBackoff
    is_up: bool = False
    attempts: list[float] = field(factory=list)


class Asking(Periodic):
    """Asks the database each second."""

    name = "asking"

    def __init__(self, database: Database) -> None:
        super().__init__(database.clock)
        self.database = database
        self.answers = 0

    async def step(self) -> float | None:
        """Ask it."""
        database = self.database
        with database.backoff.attempt():
            database.attempts.append(database.clock.seconds())
            if not database.is_up:
                raise DatabaseUnavailable("the database is down", "retry")
        self.answers += 1
        return 1.0


@define
class Node:
    """Two services, and the outage that they report."""

    database: Database
    first: Asking
    second: Asking
    outage: Outage

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.database.clock.pump([0.01] * round(seconds * 100))


@pytest.fixture
def node() -> Node:
    """Return them, started."""
    clock = Clock()
    database = Database(clock, ReconnectBackoff(clock.seconds))
    first, second = services = Asking(database), Asking(database)
    outage = Outage(clock, database.backoff)
    for service in services:
        service.outage = outage
        service.startService()
    return Node(database, first, second, outage)


def test_an_attempt_follows_each_pause_at_once(node: Node) -> None:
    """The services' own pauses grow to 5 s; the database is asked each two seconds, by one."""
    node.advance(60.0)
    attempts = [moment for moment in node.database.attempts if moment > 10]
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    assert max(pauses) <= LONGEST + 0.05
    assert min(pauses) >= LONGEST / 2 - 0.05


def test_a_success_lets_all_go_on(node: Node) -> None:
    """Soon after the database is back, not after the longest pause of a service."""
    node.advance(60.0)
    node.database.is_up = True
    node.advance(LONGEST + 0.05)
    assert node.first.answers
    assert node.second.answers


def test_nothing_is_done_without_a_failure(node: Node) -> None:
    """The services go on at their own pace, and no timer is added."""
    node.database.is_up = True
    node.advance(10.0)
    answers = node.first.answers
    node.advance(10.0)
    assert node.first.answers == answers + 10
    assert len(node.database.clock.getDelayedCalls()) == 2


def test_it_stops(node: Node) -> None:
    """With the others, while the database is down; no timer is left."""
    node.advance(10.0)
    for service in (node.first, node.second):
        service.stopService()
    node.outage.end()
    assert node.database.clock.getDelayedCalls() == []
