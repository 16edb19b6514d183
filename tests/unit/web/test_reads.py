"""Reads that all viewers share."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from txqueue.errors import DatabaseUnavailable
from txqueue.store.inquiries.inquiry import Inquiry, Question
from txqueue.store.inquiries.operations import Operations
from txqueue.web.page_services import (
    COST,
    EVERY,
    FRESH,
    LONGEST,
    MOST_KEPT,
    STILL,
    Changes,
    Reads,
)


@define
class Answering:
    """Stands for the database: answers are given one by one, but for the time, at once."""

    clock: Clock
    waiting: list[Deferred[Any]] = field(factory=list)
    reads: int = 0
    is_away: bool = False
    outage: str | None = None

    async def find(self, inquiry: Any) -> Any:
        """Wait for an answer."""
        if inquiry.__name__ == "about_clock":
            return self._tell_time()
        self.reads += 1
        self.waiting.append(Deferred())
        return await self.waiting[-1]

    def _tell_time(self) -> float:
        self.outage = "gone" if self.is_away else None
        if self.is_away:
            raise DatabaseUnavailable("gone", "")
        return self.clock.seconds()

    def answer(self, value: object, after: float = 0.0) -> None:
        """Answer the oldest question."""
        self.clock.advance(after)
        self.outage = None
        self.waiting.pop(0).callback(value)

    def fail(self) -> None:
        """Fail the oldest question."""
        self.outage = "gone"
        self.waiting.pop(0).errback(DatabaseUnavailable("gone", ""))


def inquiry(_schema: str, _part: str = "") -> Inquiry[Any]:
    """Stand for an inquiry."""
    return (yield Question("select 1"))


@pytest.fixture
def database() -> Answering:
    """A database whose answers the test gives."""
    return Answering(Clock())


@pytest.fixture
def ask(database: Answering) -> Callable[[], Deferred[Any]]:
    """Ask for the shared figures."""
    reads = Reads(database.clock, cast("Operations", database), "txqueue")
    return lambda: Deferred.fromCoroutine(reads.shared(inquiry))


def result(deferred: Deferred[Any]) -> Any:
    """Return what a Deferred that has fired holds."""
    results: list[Any] = []
    deferred.addCallback(results.append)
    return results[0]


def test_many_viewers_share_one_read(database: Answering, ask: Callable[[], Deferred[Any]]) -> None:
    """Those who ask while it runs wait for it; it is read again when it is no longer fresh."""
    first, second = ask(), ask()
    database.answer("one")
    assert (result(first).value, result(second).value) == ("one", "one")
    assert (result(ask()).value, database.reads) == ("one", 1)
    database.clock.advance(FRESH)
    third = ask()
    database.answer("two")
    assert (result(third).value, database.reads) == ("two", 2)


def test_figures_that_are_slow_to_read_are_read_less_often(
    database: Answering, ask: Callable[[], Deferred[Any]]
) -> None:
    """So that they never take more than a small part of the server; their age is shown."""
    first = ask()
    database.answer("one", after=0.5)
    assert result(first).value == "one"
    database.clock.advance(0.5 * COST - 1)
    assert (result(ask()).age, database.reads) == (0.5 * COST - 1, 1)
    database.clock.advance(1)
    ask()
    assert database.reads == 2


def test_one_very_slow_read_does_not_age_figures_beyond_a_minute(
    database: Answering, ask: Callable[[], Deferred[Any]]
) -> None:
    """It may be an accident, such as a busy host."""
    ask()
    database.answer("one", after=2.0)
    database.clock.advance(LONGEST - 1)
    ask()
    assert database.reads == 1
    database.clock.advance(1)
    ask()
    assert database.reads == 2


def test_the_last_figures_are_shown_while_the_database_is_away(
    database: Answering, ask: Callable[[], Deferred[Any]]
) -> None:
    """With their age and the reason."""
    first = ask()
    database.answer("one")
    assert result(first).trouble is None
    database.clock.advance(60)
    second = ask()
    database.fail()
    found = result(second)
    assert (found.value, found.age, found.trouble) == ("one", 60, "gone")


def test_figures_that_are_not_due_yet_tell_of_an_outage(
    database: Answering, ask: Callable[[], Deferred[Any]]
) -> None:
    """Those of a large database, which are read once a minute, as well; and of its end."""
    first = ask()
    database.answer("one", after=1.0)
    assert result(first).trouble is None
    database.is_away = True
    for _ in range(2):
        found = result(ask())
        assert (found.value, found.trouble, found.is_down) == ("one", "gone", True)
        database.clock.advance(2 * FRESH)
    database.is_away = False
    database.clock.advance(2 * FRESH)
    found = result(ask())
    assert (found.trouble, found.is_down, database.reads) == (None, False, 1)


def test_without_any_figures_the_reason_is_raised(
    database: Answering, ask: Callable[[], Deferred[Any]]
) -> None:
    """There is nothing to show."""
    first = ask()
    database.fail()
    database.fail()
    failures: list[Any] = []
    first.addErrback(failures.append)
    assert failures[0].check(DatabaseUnavailable)


def test_a_viewer_of_the_latest_figures_waits_for_them_a_moment_only(database: Answering) -> None:
    """The read goes on, and later viewers see what it has found."""
    reads = Reads(database.clock, cast("Operations", database), "txqueue")

    def latest() -> Deferred[Any]:
        return Deferred.fromCoroutine(reads.latest(inquiry, 1.0))

    first, second = latest(), latest()
    database.clock.advance(1)
    assert (result(first).value, result(second).value, database.reads) == (None, None, 1)
    database.answer("one")
    assert result(latest()).value == "one"


def test_a_database_that_does_not_answer_is_asked_again_soon(database: Answering) -> None:
    """Its last figures are shown, however long it took to fail; a slow query is not repeated so."""
    reads = Reads(database.clock, cast("Operations", database), "txqueue")

    def latest() -> Deferred[Any]:
        return Deferred.fromCoroutine(reads.latest(inquiry, 20.0))

    first = latest()
    database.answer("one")
    assert not result(first).is_down
    database.clock.advance(FRESH)
    second = latest()
    database.clock.advance(10)
    database.fail()
    found = result(second)
    assert (found.value, found.age, found.is_down) == ("one", 10 + FRESH, True)
    database.clock.advance(10)
    latest()
    assert database.reads == 3


@define(eq=False)
class Page:
    """An open page."""

    told: int = 0

    def changed(self) -> None:
        """Count."""
        self.told += 1


def test_pages_get_changes_while_any_is_open(database: Answering) -> None:
    """And now and then without one, as ages change; without pages nothing is read."""
    changes = Changes(database.clock, cast("Operations", database), "txqueue")
    page = Page()
    changes.add(page.changed)
    for value in (1, 1, 2):
        database.clock.advance(EVERY)
        database.answer(value)
    assert page.told == 2
    for _ in range(round(STILL / EVERY)):
        database.clock.advance(EVERY)
        database.answer(2)
    assert page.told == 3
    changes.remove(page.changed)
    reads = database.reads
    database.clock.advance(10 * EVERY)
    assert database.reads == reads


def test_a_page_that_opens_during_the_last_look_of_another_gets_changes(
    database: Answering,
) -> None:
    """By one look a second, which ends with it."""
    changes, page = Changes(database.clock, cast("Operations", database), "txqueue"), Page()
    changes.add(page.changed)
    database.clock.advance(EVERY)
    changes.remove(page.changed)
    changes.add(page.changed)
    database.answer(1)
    database.clock.advance(EVERY)
    assert len(database.waiting) == 1
    database.answer(2)
    changes.remove(page.changed)
    reads = database.reads
    database.clock.advance(10 * EVERY)
    assert (page.told, database.reads) == (2, reads)


def test_figures_that_were_not_used_for_long_are_forgotten() -> None:
    """An address may name any queue: a viewer must not fill the memory with them."""

    class Counting:
        reads, outage = 0, None

        async def find(self, inquiry: Any) -> int:
            self.reads += inquiry.__name__ != "about_clock"
            return self.reads

    counting = Counting()
    reads = Reads(Clock(), cast("Operations", counting), "txqueue")

    def read(name: str) -> int:
        return int(result(Deferred.fromCoroutine(reads.shared(inquiry, name))).value)

    assert read("first") == 1
    for number in range(MOST_KEPT - 1):
        read(f"queue {number}")
    assert read("first") == 1
    read("one more")
    assert read("first") == 1
    assert read("queue 0") == MOST_KEPT + 2
