"""The table of peers: their reports, and messages to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twisted.logger import Logger

from txqueue.node.peers.peer import Peer
from txqueue.policy.placement.credit import NodeLoad
from txqueue.policy.placement.node_report import NodeReport
from txqueue.system.clock import Clock
from txqueue.wire.peer_connection import PeerPipe

__all__ = ["PeerTable"]

# Seconds after which a report is too old to act on.
FRESH = 3.0


class PeerTable:
    """The peers by incarnation; empty unless the node has --listen.

    Args:
        clock: Tells the age of reports, and times out answers.
    """

    log = Logger()

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._peers: dict[int, Peer] = {}

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._peers.values()))

    # Written by the service that keeps the connections.

    def update(self, rows: Mapping[int, dict[str, Any]]) -> None:
        """Store the rows of the live peers by incarnation, and disconnect all other peers."""
        for number in self._peers.keys() - rows.keys():
            self._peers.pop(number).close()
        for number, row in rows.items():
            self._peers.setdefault(number, Peer(row)).row = row

    def clear(self) -> None:
        """Forget all peers, and close the connections to them."""
        self.update({})

    def at(self, pipe: PeerPipe) -> Peer | None:
        """Return the peer of a connection; None if the peer is not identified."""
        return next((peer for peer in self._peers.values() if peer.pipe is pipe), None)

    def peer(self, incarnation: int) -> Peer | None:
        """Return the peer of an incarnation; None if it is unknown."""
        return self._peers.get(incarnation)

    # Queries by services of this node.

    @property
    def reports(self) -> list[NodeReport]:
        """The recent reports of the peers."""
        oldest = self._clock.seconds() - FRESH
        known = (peer for peer in self._peers.values() if peer.heard_at >= oldest)
        return [peer.report for peer in known if peer.report is not None]

    @property
    def has_fresh(self) -> bool:
        """Whether jobs may be on their way from a peer: at least one has reported recently."""
        return bool(self.reports)

    def loads(self) -> list[NodeLoad]:
        """Return the loads of the peers that may get jobs."""
        return [report.as_load for report in self.reports]

    def forward(self, incarnation: int, assignments: Sequence[int]) -> None:
        """Send a peer the numbers of its new assignments; without them, it polls for its jobs."""
        peer = self._peers.get(incarnation)
        if peer is not None:
            peer.forward(self._clock, assignments)

    async def steal(self, incarnation: int, weight: int) -> tuple[list[int], int]:
        """Ask a peer for unstarted work.

        Returns:
            The assignments that this node now has, and their weight; none if the peer does not
            answer.
        """
        peer = self._peers.get(incarnation)
        if peer is None:
            return [], 0
        try:
            return await peer.ask(self._clock, weight)
        except Exception as error:
            # A broken connection is reconnected, and passed-on jobs are found by polling.
            self.log.debug("{peer} gave no work: {error!r}", peer=peer.name, error=error)
            return [], 0

    def wake(self) -> None:
        """Notify the peers with room that there may be work."""
        for peer in self._peers.values():
            peer.wake()

    def describe(self) -> list[dict[str, Any]]:
        """Return each peer's name, whether it is connected, and its reported load."""
        return [peer.describe() for peer in self._peers.values()]
