"""A failed attempt to connect keeps others from trying, for a moment."""

from contextlib import ExitStack, suppress
from itertools import pairwise

import pytest
from attrs import define

from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.reconnecting import FIRST, LEAST, LONGEST, ReconnectBackoff


@define
class Door:
    """A database that is up or down, and the number of attempts to connect."""

    backoff: ReconnectBackoff
    is_open: bool = False
    knocks: int = 0

    def knock(self) -> bool:
        """Try; whether it was opened."""
        try:
            with self.backoff.attempt():
                self.knocks += 1
                if not self.is_open:
                    raise DatabaseUnavailable("the database is down", "retry")
        except DatabaseUnavailable as error:
            return "the database is down" not in str(error)
        return True


@define
class Time:
    """A clock that is set."""

    now: float = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def time() -> Time:
    """The clock."""
    return Time()


@pytest.fixture
def door(time: Time) -> Door:
    """A door that is shut."""
    return Door(ReconnectBackoff(time))


def test_concurrent_callers_make_one_attempt(door: Door) -> None:
    """The others get the same error."""
    assert not any(door.knock() for _ in range(10))
    assert door.knocks == 1


def test_pauses_grow_to_a_bound(door: Door, time: Time) -> None:
    """In a minute of steady requests there are few attempts, and still some at its end."""
    for tenth in range(600):
        time.now = tenth / 10
        door.knock()
    assert 60 / LONGEST < door.knocks < 60 / (LONGEST / 2) + 10


def test_the_timeout_is_in_the_error(time: Time) -> None:
    """Who would lose by resting long does not."""
    impatient = Door(ReconnectBackoff(time, longest=0.4))
    for tenth in range(600):
        time.now = tenth / 10
        impatient.knock()
    assert impatient.knocks > 60 / 0.5


def test_after_a_success_no_attempt_is_delayed(door: Door, time: Time) -> None:
    """A success ends the backoff, and the next failure begins with a short one."""
    for second in range(20):
        time.now = float(second)
        door.knock()
    door.is_open, time.now = True, 100.0
    assert door.knock()
    assert door.knock()
    door.is_open = False
    assert not door.knock()
    door.is_open, time.now = True, 100.0 + FIRST
    assert door.knock()


def test_attempts_that_fail_together_count_once(time: Time) -> None:
    """Connections that break at the same moment do not make a pause each."""
    backoff = ReconnectBackoff(time)
    with suppress(DatabaseUnavailable), ExitStack() as attempts:
        for _ in range(8):
            attempts.enter_context(backoff.attempt())
        raise DatabaseUnavailable("gone", "")
    time.now = FIRST
    with pytest.raises(DatabaseUnavailable, match="again"), backoff.attempt():
        raise DatabaseUnavailable("gone again", "")
    time.now += 2 * FIRST
    with backoff.attempt():
        pass


def test_a_pause_counts_from_the_start_of_the_attempt(time: Time) -> None:
    """Where a host does not answer, the attempt takes long: nothing is gained by waiting more."""
    backoff = ReconnectBackoff(time)
    begun: list[float] = []
    while time.now < 60:
        with suppress(DatabaseUnavailable), backoff.attempt():
            begun.append(time.now)
            time.now += 1.0
            raise DatabaseUnavailable("no answer", "")
        time.now += 0.01
    pauses = [later - earlier for earlier, later in pairwise(begun)]
    assert all(1.0 + LEAST <= pause <= LONGEST + 0.02 for pause in pauses)


def test_the_rest_of_a_pause_is_told(door: Door, time: Time) -> None:
    """With its beginning; none is left after a success."""
    begun: list[float] = []
    door.backoff.on_failure = lambda: begun.append(time.now)
    assert door.backoff.left is None
    door.knock()
    left = door.backoff.left
    assert left is not None
    assert LEAST <= left <= FIRST
    time.now += left / 2
    door.knock()
    assert begun == [0.0]
    assert door.backoff.left == pytest.approx(left / 2)
    time.now += left
    assert door.backoff.left == 0.0
    door.is_open = True
    door.knock()
    assert door.backoff.left is None


def test_a_recovery_is_reported_once(door: Door, time: Time) -> None:
    """By the first attempt that succeeds after one that failed."""
    recoveries: list[float] = []
    door.backoff.on_recovery = lambda: recoveries.append(time.now)
    door.is_open = True
    assert door.knock()
    assert recoveries == []
    door.is_open = False
    door.knock()
    door.is_open, time.now = True, LONGEST
    assert door.knock()
    assert door.knock()
    assert recoveries == [LONGEST]
