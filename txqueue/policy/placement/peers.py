"""What each connected node reports of its load, and which work moves to which other node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from attrs import asdict, frozen

from txqueue.policy.placement.credit import NodeLoad
from txqueue.policy.placement.room import MOST_AHEAD

# A change of load by one of this many steps is reported at once; the exact load follows with the
# next regular report.
STEPS = 16
_NUMBERS = ("outstanding", "limit", "ahead", "excess", "workers", "memory")


@frozen
class NodeReport:
    """A node's report to its peers.

    Attributes:
        node_id: The node.
        incarnation: The node's run.
        capacity: The weight that the node may run at a time.
        outstanding: The weight of the jobs that its workers hold.
        limit: The weight of the jobs that its workers may hold.
        ahead: The weight that waits in its workers now and also waited a tenth of a second ago.
        excess: The weight that its workers hold beyond their limits.
        workers: How many worker processes accept jobs.
        lag: Seconds by which its reactor has been late recently.
        memory: Bytes of memory that the master uses.
        is_draining: Whether the node accepts no jobs.
        version: The version of txqueue.
    """

    node_id: int
    incarnation: int
    capacity: int
    outstanding: int
    limit: int
    ahead: int = 0
    excess: int = 0
    workers: int = 1
    lag: float = 0.0
    memory: int = 0
    is_draining: bool = False
    version: str = ""

    @property
    def free(self) -> int:
        """The weight that may be handed to the node."""
        return 0 if self.is_draining else max(0, self.limit - self.outstanding + self.excess)

    @property
    def idle(self) -> int:
        """The weight that the node could start at once."""
        return min(self.free, max(0, self.capacity - self.outstanding + self.ahead))

    @property
    def burden(self) -> tuple[int, ...]:
        """The load in coarse steps; each change of the steps is reported to peers at once."""
        fullness = STEPS * self.outstanding // max(1, self.limit)
        waits = (self.ahead.bit_length(), self.excess.bit_length())
        return (fullness, self.limit.bit_length(), *waits, self.is_draining)

    @property
    def as_load(self) -> NodeLoad:
        """The same load in the form that the credit service takes."""
        limit = 0 if self.is_draining else self.limit
        return NodeLoad(self.node_id, self.incarnation, self.outstanding, limit)

    def as_text(self) -> str:
        """Return the report as JSON text for the peers, without the node's identity."""
        document = asdict(self)
        del document["node_id"], document["incarnation"], document["capacity"]
        return json.dumps(document)

    @classmethod
    def read(cls, node: dict[str, Any], text: str) -> NodeReport:
        """Read a peer's report; the database, not the report, gives the peer's identity.

        Args:
            node: The peer's ``node_id, incarnation, capacity, state`` in the database.
            text: The report as JSON text.

        Raises:
            ValueError: When the text is not a report.
        """
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("no object")
        most = int(node["capacity"]) + MOST_AHEAD * _whole(document, "workers")
        numbers = {name: _whole(document, name) for name in _NUMBERS}
        return cls(
            **{**numbers, "limit": min(numbers["limit"], most)},
            node_id=node["node_id"],
            incarnation=node["incarnation"],
            capacity=node["capacity"],
            lag=float(document.get("lag", 0.0)),
            is_draining=bool(document.get("is_draining")) or node["state"] != "alive",
            version=str(document.get("version", ""))[:100],
        )


def _whole(document: dict[str, Any], name: str) -> int:
    value = document.get(name, 0)
    if not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise ValueError(f"{name} is no number of anything")
    return value


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
