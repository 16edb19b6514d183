"""The notifications of ended jobs: one statement at a time, for all that have ended meanwhile."""

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from tests.unit.node.doubles import fake
from txqueue.errors import DatabaseUnavailable
from txqueue.node.workers.completions import EndNotifier


class Clients:
    """Wait for notifications; the answer to each takes until the test gives it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.answers: list[Deferred[float]] = []

    async def notify_ends(self, numbers: str) -> float:
        """Note what is notified."""
        self.told.append(numbers)
        self.answers.append(Deferred())
        return await self.answers[-1]


def running(test: Callable[[Clock, Clients, EndNotifier], None]) -> None:
    """Run a notifier for a test, with a client that waits for 10 seconds."""
    clock, clients = Clock(), Clients()
    notifier = EndNotifier(clock, fake(clients))
    notifier.startService()
    notifier.on_ends("1")
    clients.answers[0].callback(10.0)
    test(clock, clients, notifier)
    notifier.stopService()


def test_ends_gather_while_a_notification_is_under_way() -> None:
    """The next one has all of them, and follows at once."""

    def test(clock: Clock, clients: Clients, notifier: EndNotifier) -> None:
        for numbers in ("2", "3,4", "5"):
            notifier.on_ends(numbers)
        assert clients.told == ["1", "2"]
        clients.answers[1].callback(10.0)
        assert clients.told == ["1", "2", "3,4,5"]

    running(test)


def test_an_end_after_a_failed_notification_is_told() -> None:
    """Clients find those of the failed one by polling."""

    def test(clock: Clock, clients: Clients, notifier: EndNotifier) -> None:
        notifier.on_ends("2")
        clients.answers[1].errback(DatabaseUnavailable("no answer", "wait"))
        notifier.on_ends("3")
        clock.advance(1.0)
        assert clients.told == ["1", "2", "3"]

    running(test)


def test_what_is_left_is_told_at_the_end() -> None:
    """Also what would have waited for others."""
    clock, clients = Clock(), Clients()
    notifier = EndNotifier(clock, fake(clients))
    notifier.startService()
    notifier.on_ends("1")
    clients.answers[0].callback(0.0)
    notifier.on_ends("2")
    assert clients.told == ["1"]
    Deferred.fromCoroutine(notifier.close())
    assert clients.told == ["1", "2"]
