"""Acts when the node's lease is acquired, renewed, expired or lost; `heartbeats` renews it."""

from __future__ import annotations

import time
from typing import Protocol

from twisted.logger import Logger

from txqueue.node.lease import Identity, Lease
from txqueue.node.wakeups import Wakeups
from txqueue.system.clock import Clock, Timer

__all__ = ["CreditGiver", "LeaseHolders", "LeaseKeeper"]


class LeaseHolders(Protocol):
    """The workers, which start jobs only while the lease holds."""

    def renew(self, until: float, incarnation: int) -> None:
        """Start this run's jobs until a moment of the monotonic clock."""

    def give_back(self) -> None:
        """Return all unstarted jobs."""


class CreditGiver(Protocol):
    """The service that grants credit only while the lease holds."""

    def review(self) -> None:
        """Give and withdraw credit as things are now."""


class LeaseKeeper:
    """Writes the lease, passes it to the workers, and acts when it expires.

    Args:
        clock: Times the expiry.
        lease: The lease.
        workers: Start jobs while the lease holds.
        credits: Grants credit while the lease holds.
        wakeups: Wakes the services that claim once the lease is acquired.
    """

    log = Logger()

    def __init__(
        self,
        clock: Clock,
        lease: Lease,
        *,
        workers: LeaseHolders,
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
        """Start a new run, whose registration was sent at a moment of the monotonic clock."""
        self._lease.register(identity)
        self._hold(began)
        self._wakeups.look_for_work()

    def renewed(self, began: float) -> None:
        """Renew the lease from the moment at which a heartbeat was sent."""
        had_lease = self._lease.identity is not None
        self._hold(began)
        if not had_lease:
            self._wakeups.look_for_work()

    def kept(self, answered_at: float) -> None:
        """Renew the lease because a peer did, from the moment at which this node answered it."""
        is_news = answered_at + self._lease.seconds > self._lease.until
        if self._lease.is_registered and is_news:
            self.log.warn("the database is not reachable; a peer has renewed this node's lease")
            self.renewed(answered_at)

    def lost(self) -> None:
        """Start none of the node's jobs, as other nodes may have them."""
        self._credits.review()
        self._workers.give_back()

    def stop(self) -> None:
        """Stop watching the expiry."""
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
        """Act on the expiry: other nodes may presume this node dead."""
        self.log.warn("the lease could not be renewed in time: no job starts until it is")
        self.lost()

    def _stop_watching(self) -> None:
        if self._expiry is not None and self._expiry.active():
            self._expiry.cancel()
