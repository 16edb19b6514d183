"""Conditions are checked beside each other, within a bound, and those that failed come last."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import Factory, define
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from tests.unit.node.doubles import fake
from txqueue.errors import DatabaseUnavailable, Refused
from txqueue.node.arrival.scheduler import PAUSE, ConditionChecks
from txqueue.node.state.periodic import Wakeups
from txqueue.policy.placement.idling import WakePlace
from txqueue.store.schedules import MOST_CHECKS, Due

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@define
class Slow:
    """Conditions that are answered when the test says so."""

    asked: dict[str, Deferred[set[str]]] = Factory(dict)
    trims: int = 0

    async def met(self, table: str, column: str, values: Sequence[str]) -> set[str]:
        """Wait for the test's answer."""
        self.asked[table] = Deferred()
        return await self.asked[table]

    def trim(self) -> None:
        """Count it."""
        self.trims += 1


@define
class Bench:
    """The checks, and all around them."""

    clock: Clock
    slow: Slow
    wakeups: Wakeups
    checks: ConditionChecks

    def begin(self, *tables: str) -> None:
        """Find a due schedule for each table."""
        rows = [{"name": table, "condition": [table, "id", "1"]} for table in tables]
        self.checks.begin(Due(rows, None, NOON))

    def taken(self) -> list[tuple[Any, Any]]:
        """Which schedules were judged, and whether their conditions hold."""
        return [(row["name"], row["holds"]) for each in self.checks.take() for row in each.rows]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """One of a node that is alone."""
    clock, slow = Clock(), Slow()
    monkeypatch.setattr("txqueue.node.arrival.scheduler.time.monotonic", clock.seconds)
    wakeups = Wakeups(clock)
    return Bench(clock, slow, wakeups, ConditionChecks(clock, fake(slow), wakeups))


def test_all_are_checked_at_once_and_judged_as_they_are_answered(bench: Bench) -> None:
    """Whichever is answered first; what is being checked is not checked twice."""
    bench.begin("a", "b")
    bench.begin("b", "c")
    assert {*bench.slow.asked} == {"a", "b", "c"}
    bench.slow.asked["c"].callback({"1"})
    assert bench.taken() == [("c", True)]
    assert {*bench.checks.busy} == {("a", "id"), ("b", "id")}
    bench.slow.asked["a"].callback(set())
    bench.slow.asked["b"].callback({"1"})
    assert bench.taken() == [("a", False), ("b", True)]
    assert (bench.checks.busy, bench.taken()) == ([], [])


def test_all_nodes_together_run_a_limited_number_of_checks(bench: Bench) -> None:
    """Each has a connection of its own; the connections are closed when they are done."""
    bench.wakeups.place = WakePlace(1, MOST_CHECKS // 2)
    bench.begin("a", "b", "c", "d")
    assert [*bench.slow.asked] == ["a", "b"]
    trims = bench.slow.trims
    bench.slow.asked["a"].callback(set())
    assert [*bench.slow.asked] == ["a", "b", "c"]
    assert len(bench.checks.busy) == 3
    for table in "bcd":
        assert bench.slow.trims == trims
        bench.slow.asked[table].callback(set())
    assert bench.slow.trims == trims + 1


def test_what_has_failed_is_false_for_a_while_and_then_checked_last(bench: Bench) -> None:
    """It took no more than its patience, and so waits for ten times as long."""
    bench.begin("locked")
    bench.clock.advance(1)
    bench.slow.asked.pop("locked").errback(Refused("the database did not answer within 1 s"))
    assert bench.taken() == [("locked", False)]
    bench.begin("locked", "fine")
    assert bench.taken() == [("locked", False)]
    assert [*bench.slow.asked] == ["fine"]
    bench.slow.asked.pop("fine").callback(set())
    bench.clock.advance(9.1)
    bench.begin("locked", "fine")
    assert [*bench.slow.asked] == ["fine", "locked"]


def test_without_the_database_nothing_is_judged(bench: Bench) -> None:
    """The schedules stay due, and are checked again after a pause."""
    bench.begin("a")
    bench.slow.asked["a"].errback(DatabaseUnavailable("away"))
    bench.begin("a")
    assert (bench.taken(), bench.checks.busy) == ([], [("a", "id")])
    bench.clock.advance(PAUSE)
    assert bench.checks.busy == []


def test_an_end_waits_for_the_checks_that_run(bench: Bench) -> None:
    """No other one is begun."""
    bench.wakeups.place = WakePlace(0, MOST_CHECKS)
    bench.begin("a", "b")
    ending = Deferred.fromCoroutine(bench.checks.end())
    assert not ending.called
    bench.slow.asked["a"].callback(set())
    assert ending.called
    assert [*bench.slow.asked] == ["a"]
