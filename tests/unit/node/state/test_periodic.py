"""Waiting that can be cut short, and services that no error ends."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from tests.fixtures.leftovers import LoggedFailures
from txqueue.errors import DatabaseUnavailable, SchemaMismatch
from txqueue.node.state.periodic import (
    FIRST_PAUSE,
    LAST_STEP,
    LONGEST_PAUSE,
    Alarm,
    Outage,
    Periodic,
)

Step = Callable[[], float | None]


def waiting(alarm: Alarm, seconds: float | None) -> Deferred[None]:
    """Begin to wait."""
    return Deferred.fromCoroutine(alarm.wait(seconds))


def test_an_alarm_goes_off_when_the_time_has_passed() -> None:
    """Not before."""
    clock = Clock()
    sleep = waiting(Alarm(clock), 2.0)
    clock.advance(1.9)
    assert not sleep.called
    clock.advance(0.1)
    assert sleep.called


@pytest.mark.parametrize("seconds", [2.0, None])
def test_a_ring_wakes_the_sleeper(seconds: float | None) -> None:
    """Whether it sleeps for a time or until rung; no timer is left."""
    clock = Clock()
    alarm = Alarm(clock)
    sleep = waiting(alarm, seconds)
    assert not sleep.called
    alarm.ring()
    assert sleep.called
    assert clock.getDelayedCalls() == []


def test_a_ring_between_two_sleeps_is_kept() -> None:
    """The next wait is over at once, the one after it is not; two rings count once."""
    alarm = Alarm(Clock())
    alarm.ring()
    alarm.ring()
    assert waiting(alarm, None).called
    assert not waiting(alarm, None).called


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_no_time_is_no_wait(seconds: float) -> None:
    """What is due is due now."""
    assert waiting(Alarm(Clock()), seconds).called


class Steps(Periodic):
    """Takes the steps it is given, the last of them again and again."""

    name = "steps"

    def __init__(self, clock: Clock, *steps: Step) -> None:
        super().__init__(clock)
        self.taken = 0
        self._steps = steps

    async def step(self) -> float | None:
        """Take the next one."""
        self.taken += 1
        return self._steps[min(self.taken, len(self._steps)) - 1]()


def failing(error: Exception) -> Step:
    """Make a step that raises."""

    def step() -> float | None:
        raise error

    return step


def stopped(service: Periodic) -> bool:
    """Stop a service; tell whether it has ended."""
    stopping = service.stopService()
    return stopping is not None and stopping.called


def test_a_service_waits_as_its_steps_return() -> None:
    """Each step says when the next one comes."""
    clock = Clock()
    service = Steps(clock, lambda: 1.0, lambda: 5.0, lambda: None)
    service.startService()
    assert service.taken == 1
    clock.advance(1.0)
    assert service.taken == 2
    clock.pump([4.0, 1.0])
    assert service.taken == 3
    clock.advance(1000.0)
    assert service.taken == 3
    assert stopped(service)


def test_a_ring_brings_the_next_step_forward() -> None:
    """While it waits for long, or without end."""
    service = Steps(Clock(), lambda: 60.0, lambda: None)
    service.startService()
    service.alarm.ring()
    assert service.taken == 2
    service.alarm.ring()
    assert service.taken == 3
    assert stopped(service)


def test_a_ring_during_a_step_is_kept() -> None:
    """What came in while it was busy is seen to by another step."""

    def ring() -> None:
        service.alarm.ring()

    service = Steps(Clock(), ring, lambda: None)
    service.startService()
    assert service.taken == 2
    assert stopped(service)


def test_no_error_ends_a_service(logged_failures: LoggedFailures) -> None:
    """It is logged, and the step is taken again after a pause that grows to a bound."""
    clock = Clock()
    service = Steps(clock, *[failing(ValueError("broken"))] * 9, lambda: None)
    service.startService()
    pause, pauses = FIRST_PAUSE, []
    while service.taken < 10:
        before = service.taken
        clock.advance(pause)
        pauses.append(pause)
        assert before + 1 == service.taken
        pause = min(pause * 2, LONGEST_PAUSE)
    assert pauses[-1] == LONGEST_PAUSE
    assert len(logged_failures.flush(ValueError)) == 9
    assert stopped(service)


def test_after_a_success_pauses_are_short_again(logged_failures: LoggedFailures) -> None:
    """The next trouble is another one."""
    clock = Clock()
    wrong = failing(ValueError("broken"))
    service = Steps(clock, wrong, wrong, lambda: 0.0, wrong, lambda: None)
    service.startService()
    clock.pump([FIRST_PAUSE, FIRST_PAUSE * 2])
    assert service.taken == 4
    clock.advance(FIRST_PAUSE)
    assert service.taken == 5
    assert len(logged_failures.flush(ValueError)) == 3
    assert stopped(service)


def test_a_lost_database_is_no_failure_of_the_code(logged_failures: LoggedFailures) -> None:
    """It is logged in one line, without a traceback, and retried."""
    clock = Clock()
    service = Steps(clock, failing(DatabaseUnavailable("gone", "start it")), lambda: None)
    service.startService()
    clock.advance(FIRST_PAUSE)
    assert service.taken == 2
    assert logged_failures.complaints() == []
    assert stopped(service)


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What is logged, with its level."""
    said: list[str] = []

    def observed(event: LogEvent) -> None:
        said.append(f"{event['log_level'].name}: {formatEvent(event)}")

    observe: Any = observed
    globalLogPublisher.addObserver(observe)
    yield said
    globalLogPublisher.removeObserver(observe)


def test_an_outage_is_said_once_however_many_services_notice_it(said: list[str]) -> None:
    """One line at its beginning, one in 30 s, and one when all take steps again."""
    clock = Clock()
    is_gone = True

    def step() -> float | None:
        if is_gone:
            raise DatabaseUnavailable("it does not answer", "start it")
        return None

    services = [Steps(clock, step) for _ in range(9)]
    outage = Outage(clock, node="web-1")
    for service in services:
        service.outage = outage
        service.startService()
    clock.pump([0.1] * 360)
    is_gone = False
    clock.pump([0.1] * 50)
    gone, still_gone, back = said
    assert gone == "warn: the database of web-1 is gone: it does not answer; start it"
    # The next attempt after 30 s says it, whose pause is chosen by chance.
    lasts = r"warn: the database of web-1 has been gone for 3\d s: it does not answer; start it"
    assert re.fullmatch(lasts, still_gone)
    assert back.startswith("info: the database of web-1 is back after ")
    assert all(map(stopped, services))


def test_a_service_that_fails_otherwise_does_not_prolong_an_outage(said: list[str]) -> None:
    """The database has answered it."""
    clock = Clock()
    gone = failing(DatabaseUnavailable("gone", "start it"))
    service = Steps(clock, gone, failing(SchemaMismatch("old", "migrate")), lambda: None)
    service.startService()
    clock.pump([FIRST_PAUSE, 2 * FIRST_PAUSE])
    assert said == [
        "warn: the database is gone: gone; start it",
        "info: the database is back after 100 ms",
        "warn: steps: old; migrate; trying again in 0.2 s",
    ]
    assert stopped(service)


def test_a_refusal_that_lasts_is_said_once_in_30_s(said: list[str]) -> None:
    """Whatever the pauses between the attempts; another one at once, and the same one later."""
    clock = Clock()
    errors = [SchemaMismatch("old", "migrate")]

    def step() -> float | None:
        raise errors[-1]

    service = Steps(clock, step)
    service.startService()
    clock.pump([0.5] * 40)
    assert len(said) == 1
    errors.append(SchemaMismatch("newer", "upgrade"))
    clock.pump([0.5] * 40)
    assert [line.split(";")[0] for line in said] == ["warn: steps: old", "warn: steps: newer"]
    clock.pump([0.5] * 60)
    assert [line.split(";")[0] for line in said[2:]] == ["warn: steps: newer"]
    assert stopped(service)


def test_a_stop_waits_for_the_step_under_way() -> None:
    """Nothing is cut off, and no other step begins."""
    under_way: Deferred[None] = Deferred()

    class Slow(Periodic):
        taken = 0

        async def step(self) -> float | None:
            self.taken += 1
            await under_way
            return 0.0

    service = Slow(Clock())
    service.startService()
    assert not stopped(service)
    under_way.callback(None)
    assert stopped(service)
    assert service.taken == 1


def test_a_failed_step_is_repeated_at_once_when_the_database_is_back() -> None:
    """Not after its pause; a service whose last step succeeded goes on as it would."""
    lost = failing(DatabaseUnavailable("the database is down", "retry"))
    service = Steps(Clock(), lost, lambda: 60.0)
    service.startService()
    assert service.taken == 1
    service.retry()
    assert service.taken == 2
    service.retry()
    assert service.taken == 2
    assert stopped(service)


class Endless(Periodic):
    """Waits for an answer that never comes."""

    name = "endless"

    async def step(self) -> float | None:
        """Wait."""
        await Deferred[None]()
        return None


def test_a_step_without_an_end_does_not_hold_up_the_stop() -> None:
    """It is cancelled after some time, once, and no timer is left."""
    clock = Clock()
    service = Endless(clock)
    service.startService()
    stopping = service.stopService()
    assert stopping is not None
    clock.advance(LAST_STEP - 0.1)
    assert not stopping.called
    clock.advance(0.1)
    assert stopping.called
    assert stopping.result is None
    assert clock.getDelayedCalls() == []


def test_a_retry_after_the_stop_takes_no_step(logged_failures: LoggedFailures) -> None:
    """The database may come back while the node ends."""
    clock = Clock()
    service = Steps(clock, failing(ValueError("broken")))
    service.startService()
    assert stopped(service)
    service.retry()
    clock.advance(1000.0)
    assert service.taken == 1
    assert len(logged_failures.flush(ValueError)) == 1
