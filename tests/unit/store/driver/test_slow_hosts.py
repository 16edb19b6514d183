"""Hosts that do not answer are tried after those that do."""

from contextlib import suppress

import pytest
from attrs import define
from twisted.internet.defer import CancelledError

from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.hosts import ConnectAttempt, attempts
from txqueue.store.driver.reconnecting import REMEMBERED, SLOW, SlowHosts


@define
class Clock:
    """A clock that is set, and the hosts of a DSN."""

    hosts: list[ConnectAttempt]
    now: float = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return the clock, and three hosts."""
    return Clock(attempts("postgresql://a,b,c/shop", {}))


@pytest.fixture
def slow_hosts(clock: Clock) -> SlowHosts:
    """Return a memory of slow hosts that is empty."""
    return SlowHosts(clock)


def fail(slow_hosts: SlowHosts, clock: Clock, host: int, seconds: float) -> None:
    """Fail to connect to a host after some seconds."""
    with suppress(DatabaseUnavailable), slow_hosts.timing(clock.hosts[host]):
        clock.now += seconds
        raise DatabaseUnavailable("no answer", "")


def order(slow_hosts: SlowHosts, clock: Clock) -> str:
    """Return the hosts in the order of attempts."""
    found = slow_hosts.last(clock.hosts)
    return "".join(attempt.parameters["host"] for attempt in found)


def test_a_host_that_does_not_answer_is_tried_last(slow_hosts: SlowHosts, clock: Clock) -> None:
    """The others keep the order of the DSN; one that refuses at once is not slow."""
    assert order(slow_hosts, clock) == "abc"
    fail(slow_hosts, clock, 0, SLOW)
    fail(slow_hosts, clock, 1, SLOW / 2)
    assert order(slow_hosts, clock) == "bca"
    fail(slow_hosts, clock, 1, SLOW)
    assert order(slow_hosts, clock) == "cab"


def test_a_cancelled_attempt_had_no_answer(slow_hosts: SlowHosts, clock: Clock) -> None:
    """However soon its caller gave it up: the next caller may have as little time."""
    with suppress(CancelledError), slow_hosts.timing(clock.hosts[0]):
        raise CancelledError
    assert order(slow_hosts, clock) == "bca"


def test_an_answer_ends_it(slow_hosts: SlowHosts, clock: Clock) -> None:
    """A connection as well as a refusal, which comes at once."""
    fail(slow_hosts, clock, 0, SLOW)
    fail(slow_hosts, clock, 1, SLOW)
    with slow_hosts.timing(clock.hosts[1]):
        clock.now += SLOW
    fail(slow_hosts, clock, 0, 0.0)
    assert order(slow_hosts, clock) == "abc"


def test_it_is_forgotten(slow_hosts: SlowHosts, clock: Clock) -> None:
    """After a while the order of the DSN counts again, as the first host may be the best one."""
    fail(slow_hosts, clock, 0, SLOW)
    clock.now += REMEMBERED - 1
    assert order(slow_hosts, clock) == "bca"
    clock.now += 1
    assert order(slow_hosts, clock) == "abc"


def test_each_address_of_a_name_counts_alone(clock: Clock) -> None:
    """So do ports of one host."""
    slow_hosts = SlowHosts(clock)
    (name,) = attempts("host=db", {})
    clock.hosts = name.at_each(["10.0.0.1", "10.0.0.2"])
    fail(slow_hosts, clock, 0, SLOW)
    found = [each.parameters["hostaddr"] for each in slow_hosts.last(clock.hosts)]
    assert found == ["10.0.0.2", "10.0.0.1"]
    clock.hosts = attempts("host=db,db port=1,2", {})
    fail(slow_hosts, clock, 0, SLOW)
    assert [each.parameters["port"] for each in slow_hosts.last(clock.hosts)] == ["2", "1"]
