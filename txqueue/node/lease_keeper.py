"""What follows when the node's lease is acquired, renewed, expired or lost."""

from __future__ import annotations

import time
from typing import Protocol

from twisted.logger import Logger

from txqueue.node.lease import Identity, Lease
from txqueue.node.wakeups import Wakeups
from txqueue.system.clock import Clock, Timer

__all__ = ["CreditGiver", "LeaseKeeper", "Starters"]


class Starters(Protocol):
    """The workers, which start jobs only while the lease holds."""

    def renew(self, until: float, incarnation: int) -> None:
        """Start this run's jobs until a moment of the monotonic clock."""

    def give_back(self) -> None:
        """Start nothing of what they hold, and give it back."""


class CreditGiver(Protocol):
    """The service that gives credit only while the lease holds."""

    def review(self) -> None:
        """Give and withdraw credit as things are now."""


class LeaseKeeper:
    """Writes the lease, tells the workers of it, and notices when it expires.

    Args:
        clock: Times its expiry.
        lease: The lease.
        workers: Start jobs while it holds.
        credits: Gives credit while it holds.
        wakeups: Wakes what may claim once it is acquired.
    """

    log = Logger()

    def __init__(
        self,
        clock: Clock,
        lease: Lease,
        *,
        workers: Starters,
        credits: CreditGiver,
        wakeups: Wakeups,
    ) -> None:
        self._clock = clock
        self._lease = lease
        self._workers = workers
        self._credits = credits
        self._wakeups = wakeups
        self._expiry: Timer | None = None
        self._is_stopped = False

    def registered(self, identity: Identity, began: float) -> None:
        """Begin a new run, which was asked for at a moment of the monotonic clock."""
        self._lease.register(identity)
        self._hold(began)
        self._wakeups.look_for_work()

    def renewed(self, began: float) -> None:
        """Let the lease hold from the moment on at which a heartbeat was sent."""
        had_lease = self._lease.identity is not None
        self._hold(began)
        if not had_lease:
            self._wakeups.look_for_work()

    def kept(self, answered_at: float) -> None:
        """A peer renewed the lease; it counts from when it was told that this node lives."""
        is_news = answered_at + self._lease.seconds > self._lease.until
        if self._lease.is_registered and is_news:
            self.log.warn("the database is not reached; a peer has kept this node's lease")
            self.renewed(answered_at)

    def lost(self) -> None:
        """Start nothing of what the node holds: other nodes may have it."""
        self._credits.review()
        self._workers.give_back()

    def stop(self) -> None:
        """Notice no more that it expires."""
        self._is_stopped = True
        self._stop_watching()

    def _hold(self, began: float) -> None:
        self._lease.renew(began)
        self._workers.renew(self._lease.until, self._lease.incarnation)
        self._stop_watching()
        if not self._is_stopped:
            left = max(0.0, self._lease.until - time.monotonic())
            self._expiry = self._clock.callLater(left, self._expired)

    def _expired(self) -> None:
        """The database was silent for a lease: other nodes may presume this node dead."""
        self.log.warn("the lease could not be renewed in time: nothing is started until it is")
        self.lost()

    def _stop_watching(self) -> None:
        if self._expiry is not None and self._expiry.active():
            self._expiry.cancel()
