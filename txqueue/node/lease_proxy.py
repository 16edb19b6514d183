"""Keeps the lease of a peer that lives but cannot reach the database, once it has answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred, gatherResults

from txqueue.node.peer import Peer
from txqueue.node.periodic import Periodic
from txqueue.store.functions import StoredFunctions
from txqueue.system.clock import Clock

__all__ = ["Acquainted", "LeaseProxy"]

# A node that has been silent for this part of its lease has missed a heartbeat.
SUSPECT = 0.4


class Acquainted(Protocol):
    """The service that knows the peers."""

    def peer(self, incarnation: int) -> Peer | None:
        """Return one of them, if it is known."""


class LeaseProxy(Periodic):
    """Asks suspected nodes before their jobs are rescued.

    Args:
        clock: Times what is tried again.
        engine: The stored functions.
        incarnation: Returns the incarnation of this run, 0 while it has no lease.
        peers: Returns the service that knows the peers; None if this node has none.
    """

    name = "vouching"

    def __init__(
        self,
        clock: Clock,
        engine: StoredFunctions,
        incarnation: Callable[[], int],
        peers: Callable[[], Acquainted | None],
    ) -> None:
        super().__init__(clock)
        self._engine = engine
        self._clock = clock
        self._incarnation = incarnation
        self._peers = peers
        self._suspects: list[int] = []

    def heard(self, rows: Sequence[dict[str, Any]]) -> None:
        """Take from a heartbeat for what part of their leases the others have been silent."""
        self._suspects = [row["incarnation"] for row in rows if row["silence"] > SUSPECT]
        if self._suspects:
            self.alarm.ring()

    async def step(self) -> float | None:
        """Ask the suspects, and vouch for those that answer."""
        suspects, self._suspects = self._suspects, []
        peers, incarnation = self._peers(), self._incarnation()
        if not suspects or peers is None or not incarnation:
            return None
        known = [peer for peer in map(peers.peer, suspects) if peer is not None]
        asking = [Deferred.fromCoroutine(self._lives(peer)) for peer in known]
        answers = await gatherResults(asking)
        living = {
            peer.incarnation: peer for peer, lives in zip(known, answers, strict=True) if lives
        }
        if living:
            for each in await self._engine.renew_for_peer(incarnation, list(living)):
                living[each].kept()
        return None

    async def _lives(self, peer: Peer) -> bool:
        """Ask a peer whether it lives; one that does not answer at once is held not to."""
        try:
            return await peer.lives(self._clock)
        except Exception as error:
            self.log.debug("{peer} does not answer: {error!r}", peer=peer.name, error=error)
            return False
