"""Decides, from the nodes' reports, which work moves to which other node."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from txqueue.policy.placement.node_report import NodeReport

__all__ = ["Transfer", "choose_steal", "drain_shares", "overflow_shares"]

# The most weight that an idle node asks for.
MOST_STOLEN = 2_000


@frozen
class Transfer:
    """An intended transfer of jobs, up to a weight, to or from the node of an incarnation."""

    incarnation: int
    weight: int


def choose_steal(mine: NodeReport, peers: Sequence[NodeReport]) -> Transfer | None:
    """Decide which peer an idle node asks for work, and for how much.

    A node asks once it holds less than half of its limit, and asks only a peer with more waiting
    work than itself. It asks for what it can start at once, or for its share of what waits there if
    that is more, so that the peer does not ask for the same work back.
    """
    if mine.outstanding > mine.free or mine.idle == 0:
        return None
    victim = max(peers, key=lambda peer: peer.ahead, default=None)
    if victim is None or victim.ahead <= mine.ahead:
        return None
    part = min(MOST_STOLEN, (victim.ahead - mine.ahead) // (1 + len(peers)))
    return Transfer(victim.incarnation, max(part, min(mine.idle, victim.ahead)))


def overflow_shares(mine: NodeReport, peers: Sequence[NodeReport]) -> list[Transfer]:
    """Divide the work beyond a node's room among the peers that could start work at once."""
    if not mine.excess:
        return []
    return drain_shares(mine.excess, [peer for peer in peers if peer.idle > 0])


def drain_shares(weight: int, peers: Sequence[NodeReport]) -> list[Transfer]:
    """Divide the unstarted work of a draining node among peers, in proportion to their room.

    Args:
        weight: The weight to divide.
        peers: The peers that may take some of it.

    Returns:
        One transfer for each chosen peer, none larger than the peer's room; the largest first.
    """
    room = sum(peer.free for peer in peers) if weight else 0
    if room == 0:
        return []
    part = min(1.0, weight / room)
    shares = [Transfer(peer.incarnation, -int(-peer.free * part // 1)) for peer in peers]
    return sorted((share for share in shares if share.weight), key=lambda share: -share.weight)
