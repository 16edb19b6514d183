"""A node's place in NODE_INFO: registered, renewed, and left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred

from txqueue.node.host import has_ended
from txqueue.node.periodic import Periodic
from txqueue.store.functions import Beat, StoredFunctions
from txqueue.system.clock import Clock, Timer

__all__ = ["BEATS_A_LEASE", "NodeLease"]

BEATS_A_LEASE = 4
LEAST_PAUSE = 0.05


class NodeLease(Periodic):
    """Registers the node and renews its lease.

    Args:
        clock: Times the heartbeats.
        engine: The stored functions.
        node: The columns of its row: name, hostname, pid, address, port, lease, capacity, queues,
            version.
        work_types: The types it knows, with their policies.
        host: Tells the nodes of one host from others; `NO_HOST` if it is not to be told.
        load: Returns the node's load.
        report: Returns what else is to be said of the node: plain data.
        heard: Told what each heartbeat brought.
        renewed: Called with the moment of the monotonic clock until which the lease now holds, and
            the incarnation.
        lost: Called when the lease is lost: nothing it held may start.
        gained: Called when the node has a lease, again or for the first time.
        replaced: Called when another run has taken the name.
    """

    name = "registry"

    def __init__(
        self,
        clock: Clock,
        engine: StoredFunctions,
        *,
        node: Mapping[str, Any],
        work_types: Sequence[Mapping[str, Any]],
        host: str,
        load: Callable[[], float],
        report: Callable[[], Mapping[str, Any]],
        heard: Callable[[Beat], None],
        renewed: Callable[[float, int], None],
        lost: Callable[[], None],
        gained: Callable[[], None],
        replaced: Callable[[], None],
    ) -> None:
        super().__init__(clock)
        self._engine = engine
        self._node = node
        self._work_types = work_types
        self._load = load
        self._report = report
        self._host = host
        self._next_end: float | None = None
        self._heard = heard
        self._is_renewed = renewed
        self._lost = lost
        self._gained = gained
        self._replaced = replaced
        self._identity: tuple[int, int] | None = None
        self._renewed_at = self._reached_at = float("-inf")
        self._clock = clock
        self._expiry: Timer | None = None

    @property
    def lease(self) -> float:
        """Seconds that a heartbeat holds."""
        return float(self._node["lease"])

    @property
    def identity(self) -> tuple[int, int] | None:
        """(node_id, incarnation) while the lease holds by the monotonic clock, else None."""
        if time.monotonic() - self._renewed_at < self.lease:
            return self._identity
        return None

    @property
    def reaching(self) -> tuple[int, int] | None:
        """The identity while the node itself reaches the database; a peer may keep its lease."""
        return self.identity if time.monotonic() - self._reached_at < self.lease / 2 else None

    @property
    def incarnation(self) -> int:
        """The incarnation, whether its lease holds or not: its writes are fenced."""
        return self._identity[1] if self._identity else 0

    async def register(self) -> None:
        """Take the name, fencing a former run of it.

        Raises:
            DatabaseUnavailable: When the database does not answer.
        """
        began = time.monotonic()
        self._identity = await self._engine.register_node(self._node, self._work_types)
        self._reached_at = time.monotonic()
        self._renewed(began)
        self.log.info(
            "registered as node {name}, incarnation {number}",
            name=self._node["name"],
            number=self.incarnation,
        )
        self._gained()

    async def step(self) -> float | None:
        """Renew the lease, or register if there is none to renew."""
        if self._identity is None:
            await self.register()
            # The first heartbeat names the peers.
            return 0.0
        await self._renew()
        beat = self.lease / BEATS_A_LEASE
        # The node whose lease expires next is rescued then, not a heartbeat later.
        return beat if self._next_end is None else min(beat, max(self._next_end, LEAST_PAUSE))

    async def _renew(self) -> None:
        began = time.monotonic()
        report = {**self._report(), "host": self._host or None}
        beat = await self._engine.heartbeat(self.incarnation, self._load(), report)
        self._next_end = beat.next_end
        self._reached_at = time.monotonic()
        if beat.owned:
            had_lease = self.identity is not None
            self._renewed(began)
            if not had_lease:
                self._gained()
            self._heard(beat)
            await self._bury(beat)
            return
        self._lost()
        if await self._engine.incarnation_of(self._node["name"]) > self.incarnation:
            self.log.critical(
                "another node runs under the name {name}: this one stops; give each its own --name",
                name=self._node["name"],
            )
            self._replaced()
            return
        self.log.error("the lease was out and others have taken the jobs: registering anew")
        # Should the answer get lost, the newer incarnation found under the name is our own.
        self._identity = None
        await self.register()

    async def _bury(self, beat: Beat) -> None:
        """Rescue the jobs of neighbours whose processes have ended: no lease need be waited for."""
        ended = [incarnation for incarnation, pid in beat.neighbours if has_ended(pid)]
        if ended:
            rescued = await self._engine.declare_dead(self.incarnation, ended)
            self.log.warn(
                "{nodes} of this host ended without a word; {jobs} of their jobs run again",
                nodes=len(ended),
                jobs=rescued,
            )

    def kept(self, answered_at: float) -> None:
        """A peer renewed the lease; it counts from when it was told that this node lives."""
        if self._identity is None or answered_at <= self._renewed_at:
            return
        had_lease = self.identity is not None
        self.log.warn("the database is not reached; a peer has kept this node's lease")
        self._renewed(answered_at)
        if not had_lease:
            self._gained()

    def _renewed(self, began: float) -> None:
        self._renewed_at = max(began, self._renewed_at)
        until = self._renewed_at + self.lease
        self._is_renewed(until, self.incarnation)
        self._stop_watching()
        if self.running:
            left = max(0.0, until - time.monotonic())
            self._expiry = self._clock.callLater(left, self._expired)

    def _expired(self) -> None:
        """The database was silent for a lease: by now others may hold this node for dead."""
        self.log.warn("the lease could not be renewed in time: nothing is started until it is")
        self._lost()

    def _stop_watching(self) -> None:
        if self._expiry is not None and self._expiry.active():
            self._expiry.cancel()

    def stopService(self) -> Deferred[None] | None:
        """Renew no more."""
        self._stop_watching()
        return super().stopService()

    async def leave(self, state: str) -> None:
        """Say that the node drains or stops."""
        if self._identity is not None:
            await self._engine.leave(self.incarnation, state)
