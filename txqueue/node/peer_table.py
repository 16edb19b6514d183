"""The other masters that this node knows: what they say of themselves, and what they are told."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from twisted.logger import Logger

from txqueue.node.peer import Peer
from txqueue.policy.balancing import NodeReport
from txqueue.policy.dispatch import NodeLoad
from txqueue.system.clock import Clock
from txqueue.wire.peer_connection import PeerPipe

__all__ = ["PeerTable"]

# Older loads are not acted on; seconds.
FRESH = 3.0


class PeerTable:
    """The peers by incarnation; without any while this node does not listen for them.

    Args:
        clock: Says how old a report is, and limits how long answers take.
    """

    log = Logger()

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._peers: dict[int, Peer] = {}

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._peers.values()))

    # What keeps the connections writes.

    def update(self, rows: Mapping[int, dict[str, Any]]) -> None:
        """Take the living peers' rows by incarnation; hang up on the others."""
        for number in self._peers.keys() - rows.keys():
            self._peers.pop(number).close()
        for number, row in rows.items():
            self._peers.setdefault(number, Peer(row)).row = row

    def clear(self) -> None:
        """Hang up on all."""
        self.update({})

    def at(self, pipe: PeerPipe) -> Peer | None:
        """Return the one at the other end of a connection; None for a stranger."""
        return next((peer for peer in self._peers.values() if peer.pipe is pipe), None)

    def peer(self, incarnation: int) -> Peer | None:
        """Return one of them, if it is known."""
        return self._peers.get(incarnation)

    # What the services of this node ask.

    @property
    def reports(self) -> list[NodeReport]:
        """What the peers said of themselves, as far as it is fresh."""
        oldest = self._clock.seconds() - FRESH
        known = (peer for peer in self._peers.values() if peer.heard_at >= oldest)
        return [peer.report for peer in known if peer.report is not None]

    @property
    def has_fresh(self) -> bool:
        """Whether a peer may have jobs on their way to this node."""
        return bool(self.reports)

    def loads(self) -> list[NodeLoad]:
        """Return what those peers hold that may be handed jobs."""
        return [report.as_load for report in self.reports]

    def has_idle(self, queues: Collection[str], work_types: Collection[str]) -> bool:
        """Tell whether one that serves all of these runs next to nothing, as it said just now."""
        able = {
            number
            for number, peer in self._peers.items()
            if {*queues} <= {*peer.row["queues"]} and {*work_types} <= {*peer.row["work_types"]}
        }
        return any(report.is_idle for report in self.reports if report.incarnation in able)

    def forward(self, incarnation: int, assignments: Sequence[int]) -> None:
        """Tell a peer that jobs are assigned to it; if the message is lost, it finds them."""
        peer = self._peers.get(incarnation)
        if peer is not None:
            peer.forward(self._clock, assignments)

    async def steal(self, incarnation: int, weight: int) -> tuple[list[int], int]:
        """Ask a peer for unstarted work.

        Returns:
            The assignments that are now this node's, and their weight; none if it did not answer.
        """
        peer = self._peers.get(incarnation)
        if peer is None:
            return [], 0
        try:
            return await peer.ask(self._clock, weight)
        except Exception as error:
            # A connection that broke is dialled again; what was passed on is found by looking.
            self.log.debug("{peer} gave no work: {error!r}", peer=peer.name, error=error)
            return [], 0

    def wake(self) -> None:
        """Tell the peers with room that there may be work."""
        for peer in self._peers.values():
            peer.wake()

    def describe(self) -> list[dict[str, Any]]:
        """Say of each peer whether it is connected, and how loaded it says it is."""
        return [peer.describe() for peer in self._peers.values()]
