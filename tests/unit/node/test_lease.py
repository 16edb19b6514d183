"""A node's place in NODE_INFO when answers of the database get lost."""

from typing import Any, cast

import pytest
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from tests.fixtures.leftovers import LoggedFailures
from txqueue.errors import DatabaseUnavailable
from txqueue.node.lease import NodeLease
from txqueue.store.functions import Beat, StoredFunctions


@define
class Database:
    """Registers runs of the one node; it may do so and not answer."""

    incarnation: int = 0
    is_buried: bool = False
    loses_answers: bool = False

    async def register_node(self, *_: object) -> tuple[int, int]:
        """Register a run."""
        self.incarnation += 1
        self.is_buried = False
        if self.loses_answers:
            raise DatabaseUnavailable("the connection was lost")
        return 1, self.incarnation

    async def heartbeat(self, incarnation: int, *_: object) -> Beat:
        """Renew the lease of the newest run."""
        return Beat(incarnation == self.incarnation and not self.is_buried, "alive", [], [])

    async def incarnation_of(self, name: str) -> int:
        """Return the newest run's."""
        return self.incarnation


@define
class Around:
    """A registry, and what it tells."""

    database: Database = field(factory=Database)
    told: list[str] = field(factory=list)

    def registry(self) -> NodeLease:
        """Make one."""
        return NodeLease(
            Clock(),
            cast("StoredFunctions", self.database),
            node={"name": "n1", "lease": 10.0},
            work_types=[],
            host="h",
            load=lambda: 0.0,
            report=dict,
            heard=lambda _: None,
            renewed=lambda *_: None,
            lost=lambda: self.told.append("lost"),
            gained=lambda: self.told.append("gained"),
            replaced=lambda: self.told.append("replaced"),
        )


def step(registry: NodeLease) -> None:
    """Take one step."""
    ended: list[Any] = []
    Deferred.fromCoroutine(registry.step()).addBoth(ended.append)
    if hasattr(ended[0], "raiseException"):
        ended[0].raiseException()


def test_a_run_whose_own_registration_was_not_answered_is_not_replaced() -> None:
    """The newer run that it finds under its name is its own: it registers once more."""
    around = Around()
    registry = around.registry()
    step(registry)
    around.database.is_buried = around.database.loses_answers = True
    with pytest.raises(DatabaseUnavailable):
        step(registry)
    around.database.loses_answers = False
    step(registry)
    step(registry)
    assert around.told == ["gained", "lost", "gained"]
    assert registry.identity == (1, 3)


def test_a_run_whose_name_another_has_taken_stops(logged_failures: LoggedFailures) -> None:
    """It says so, and registers no more."""
    around = Around()
    registry = around.registry()
    step(registry)
    around.database.incarnation += 1
    step(registry)
    assert around.told == ["gained", "lost", "replaced"]
    assert around.database.incarnation == 2
    assert "another node runs under the name n1" in logged_failures.complaints()[0]
    logged_failures.events.clear()
