"""Acts when the node's lease is acquired, renewed or lost, or expires."""

from __future__ import annotations

import time
from typing import Protocol

from twisted.logger import Logger

from txqueue.node.state.lease import Identity, Lease
from txqueue.node.state.wakeups import Wakeups
from txqueue.system.clock import Clock, Timer

__all__ = ["CreditGiver", "LeaseHolders", "LeaseKeeper"]


class LeaseHolders(Protocol):
    """The workers, which start jobs only while the lease holds."""

    def renew(self, until: float, incarnation: int) -> None:
        """Allow run `incarnation` to start jobs until `until`, by the monotonic clock."""

    def give_back(self) -> None:
        """Return all unstarted jobs to the queue."""


class CreditGiver(Protocol):
    """The service that grants credit only while the lease holds."""

    def review(self) -> None:
        """Grant or withdraw credit, as the lease and the loads now require."""


class LeaseKeeper:
    """Writes the lease, passes it to the workers, and acts when it expires.

    Args:
        clock: Times the expiry.
        lease: The node's lease.
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
        self._is_stopped = self._is_kept = False

    def registered(self, identity: Identity, began: float) -> None:
        """Begin a new run; its lease counts from `began`, when the registration was sent."""
        self._lease.register(identity)
        self._hold(began)
        self._wakeups.look_for_work()

    def renewed(self, began: float) -> None:
        """Let the lease count from `began`, when the last heartbeat was sent."""
        self._is_kept = False
        had_lease = self._lease.identity is not None
        self._hold(began)
        if not had_lease:
            self._wakeups.look_for_work()

    def kept(self, answered_at: float) -> None:
        """Act on the renewal of this node's lease in the database by a peer.

        Args:
            answered_at: When this node last answered that peer's liveness check, by the monotonic
                clock; the lease counts from then.
        """
        is_news = answered_at + self._lease.seconds > self._lease.until
        if self._lease.is_registered and is_news:
            if not self._is_kept:
                self.log.warn("a peer renews this node's lease while the database is gone")
            self.renewed(answered_at)
            self._is_kept = True

    def lost(self) -> None:
        """Withdraw credit and return all unstarted jobs, as other nodes may have taken them."""
        self._credits.review()
        self._workers.give_back()

    def stop(self) -> None:
        """Stop watching for the expiry of the lease."""
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
        """Act on the expiry of the lease: other nodes may presume this node dead."""
        self.log.warn("the lease could not be renewed in time: no job starts until it is")
        self.lost()

    def _stop_watching(self) -> None:
        if self._expiry is not None and self._expiry.active():
            self._expiry.cancel()
