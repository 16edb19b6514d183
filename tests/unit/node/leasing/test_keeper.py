"""A lease that expires, and what follows; a peer that keeps it."""

from typing import Any

import pytest
from twisted.internet.task import Clock

from tests.unit.node.doubles import fake, is_rung
from txqueue.node.leasing.heartbeats import LeaseKeeper
from txqueue.node.state.lease import Identity, Lease
from txqueue.node.state.periodic import Wakeups

SECONDS = 10.0
ME = Identity(1, 7)


class Bench:
    """A keeper with workers and clients, and one clock for timers and leases."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.lease = Lease(SECONDS)
        self.wakeups = Wakeups(self.clock)
        self.told: list[Any] = []
        self.keeper = LeaseKeeper(
            self.clock, self.lease, workers=fake(self), credits=fake(self), wakeups=self.wakeups
        )

    def renew(self, until: float, incarnation: int) -> None:
        """Record a renewal sent to the workers."""
        self.told.append((until, incarnation))

    def give_back(self) -> None:
        """The workers give back."""
        self.told.append("given back")

    def review(self) -> None:
        """Credit is withdrawn."""
        self.told.append("reviewed")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A keeper whose node has just registered."""
    made = Bench()
    monkeypatch.setattr("txqueue.node.state.lease.time.monotonic", made.clock.seconds)
    made.keeper.register(ME, 0.0)
    assert is_rung(made.wakeups.claimer)
    made.lease.note_answer()
    return made


def test_a_lease_that_is_not_renewed_expires(bench: Bench) -> None:
    """Nothing is started and no credit given until it is; then what may claim is woken."""
    bench.clock.advance(SECONDS - 0.1)
    assert (bench.lease.identity, bench.lease.reaching) == (ME, None)
    bench.clock.advance(0.1)
    assert (bench.lease.identity, bench.lease.incarnation) == (None, 7)
    assert bench.told == [(SECONDS, 7), "reviewed", "given back"]
    bench.keeper.renew(SECONDS)
    assert bench.lease.identity == ME
    assert is_rung(bench.wakeups.claimer)
    bench.keeper.stop()


def test_a_lease_holds_from_the_moment_at_which_it_was_asked_for(bench: Bench) -> None:
    """And a late answer to an earlier question shortens nothing."""
    bench.clock.advance(4)
    bench.keeper.renew(3)
    bench.keeper.renew(2)
    assert bench.lease.until == 3 + SECONDS
    assert bench.told[-1] == (3 + SECONDS, 7)
    assert not is_rung(bench.wakeups.claimer)
    bench.keeper.stop()


def test_a_peer_keeps_the_lease(bench: Bench) -> None:
    """From when the node answered it; but then the node does not reach the database itself."""
    bench.clock.advance(SECONDS - 1)
    bench.keeper.renew_by_peer(SECONDS - 2)
    bench.keeper.renew_by_peer(SECONDS - 3)
    assert (bench.lease.until, bench.lease.reaching) == (2 * SECONDS - 2, None)
    bench.keeper.stop()


def test_a_lease_that_was_given_up_is_kept_by_no_peer(bench: Bench) -> None:
    """Other nodes have the jobs."""
    bench.lease.forget()
    bench.keeper.renew_by_peer(5)
    assert bench.told == [(SECONDS, 7)]
    bench.keeper.stop()


def test_a_keeper_that_is_stopped_notices_nothing(bench: Bench) -> None:
    """Even if the last heartbeat is answered after that."""
    bench.keeper.stop()
    bench.keeper.renew(1)
    assert not bench.clock.getDelayedCalls()
