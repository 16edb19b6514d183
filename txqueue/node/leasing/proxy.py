"""Renews the lease of a peer that is alive but cannot reach the database."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import Deferred, gatherResults

from txqueue.node.state.lease import Lease
from txqueue.node.state.periodic import Periodic
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.replies import HeartbeatReply
from txqueue.system.clock import Clock

__all__ = ["KnownPeers", "LeaseProxy"]

# A node that has been silent for this fraction of its lease has missed a heartbeat.
SUSPECT = 0.4


class SilentPeer(Protocol):
    """A master that may be silent because it cannot reach the database."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def incarnation(self) -> int:
        """The number of its run."""

    async def lives(self, clock: Clock) -> bool:
        """Ask it whether it is alive."""

    def kept(self) -> None:
        """Note that its lease was renewed."""


class KnownPeers(Protocol):
    """The other masters."""

    def peer(self, incarnation: int) -> SilentPeer | None:
        """Return the peer of an incarnation; None if it is unknown."""


class LeaseProxy(Periodic):
    """Asks silent peers whether they are alive, and renews the leases of those that answer.

    Args:
        clock: Times the retries and the answers.
        functions: The stored functions.
        lease: This node's lease; without it, this node renews no lease of a peer.
        peers: The other masters.
    """

    name = "lease proxy"

    def __init__(
        self, clock: Clock, functions: StoredFunctions, lease: Lease, peers: KnownPeers
    ) -> None:
        super().__init__(clock)
        self._functions = functions
        self._clock = clock
        self._lease = lease
        self._peers = peers
        self._suspects: list[int] = []

    def heard(self, reply: HeartbeatReply) -> None:
        """Note the nodes that have been silent for a large fraction of their leases."""
        self._suspects = [row["incarnation"] for row in reply.peers if row["silence"] > SUSPECT]
        if self._suspects:
            self.alarm.ring()

    async def step(self) -> float | None:
        """Ask the silent peers whether they are alive, and renew the leases of those that are."""
        suspects, self._suspects = self._suspects, []
        identity = self._lease.identity
        if not suspects or identity is None:
            return None
        known = [peer for peer in map(self._peers.peer, suspects) if peer is not None]
        asking = [Deferred.fromCoroutine(self._lives(peer)) for peer in known]
        answers = await gatherResults(asking)
        living = {
            peer.incarnation: peer for peer, lives in zip(known, answers, strict=True) if lives
        }
        if living:
            for incarnation in await self._functions.renew_for_peer(
                identity.incarnation, list(living)
            ):
                living[incarnation].kept()
        return None

    async def _lives(self, peer: SilentPeer) -> bool:
        """Ask a peer whether it is alive; presume that it is not if it does not answer promptly."""
        try:
            return await peer.lives(self._clock)
        except Exception as error:
            self.log.debug("{peer} does not answer: {error!r}", peer=peer.name, error=error)
            return False
