"""How work is evened out between nodes: decisions on what they say of themselves."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from attrs import asdict, frozen

from txqueue.policy.dispatch import MOST_AHEAD, Load, NodeLoad

__all__ = [
    "NodeReport",
    "Transfer",
    "Unstarted",
    "ahead_of",
    "drain_shares",
    "overflow",
    "tail_shares",
    "theft",
]

# In how many steps a load is told at once; the exact one follows with the next regular report.
# A node is idle that could start so much of what it may run at a time.
IDLE = 0.9
STEPS = 16
# Weight that is asked for at most.
MOST_STOLEN = 2_000
_NUMBERS = ("outstanding", "limit", "ahead", "excess", "workers", "memory")


@frozen
class NodeReport:
    """What a node says of itself to the others.

    Attributes:
        node_id: The node.
        incarnation: Its run.
        capacity: Weight that it may run at a time.
        outstanding: Weight that its workers hold.
        limit: Weight that its workers may hold.
        ahead: Weight that waits in its workers, and did so a moment ago.
        excess: Weight that they hold beyond what they may.
        workers: How many processes take jobs.
        lag: Seconds by which its reactor is late, of late.
        memory: Bytes of memory that the master uses.
        is_draining: Whether it takes nothing.
        version: Of txqueue.
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
        """Weight that it can be handed."""
        return 0 if self.is_draining else max(0, self.limit - self.outstanding + self.excess)

    @property
    def idle(self) -> int:
        """Weight that it could start at once."""
        return min(self.free, max(0, self.capacity - self.outstanding + self.ahead))

    @property
    def is_idle(self) -> bool:
        """Whether it could start nearly all that it may run at a time."""
        return 0 < self.capacity * IDLE <= self.idle

    @property
    def burden(self) -> tuple[int, ...]:
        """What the others are told of at once when it changes: roughly how loaded it is."""
        fullness = STEPS * self.outstanding // max(1, self.limit)
        waits = (self.ahead.bit_length(), self.excess.bit_length())
        return (fullness, self.limit.bit_length(), *waits, self.is_draining)

    @property
    def as_load(self) -> NodeLoad:
        """The same for the service that grants credit."""
        limit = 0 if self.is_draining else self.limit
        return NodeLoad(self.node_id, self.incarnation, self.outstanding, limit)

    def as_text(self) -> str:
        """Return it as it is sent: the sender's name is not part of it."""
        said = asdict(self)
        del said["node_id"], said["incarnation"], said["capacity"]
        return json.dumps(said)

    @classmethod
    def read(cls, node: dict[str, Any], text: str) -> NodeReport:
        """Read what a peer sent; what the database knows of it is not believed from a message.

        Args:
            node: Its ``node_id, incarnation, capacity, state`` by the database.
            text: What it sent.

        Raises:
            ValueError: When it is no report.
        """
        said = json.loads(text)
        if not isinstance(said, dict):
            raise ValueError("no object")
        most = int(node["capacity"]) + MOST_AHEAD * _whole(said, "workers")
        numbers = {name: _whole(said, name) for name in _NUMBERS}
        return cls(
            **{**numbers, "limit": min(numbers["limit"], most)},
            node_id=node["node_id"],
            incarnation=node["incarnation"],
            capacity=node["capacity"],
            lag=float(said.get("lag", 0.0)),
            is_draining=bool(said.get("is_draining")) or node["state"] != "alive",
            version=str(said.get("version", ""))[:100],
        )


@frozen
class Unstarted:
    """Jobs that workers gave up before they started them.

    Attributes:
        jobs: The assignment and the number of each.
        weight: Of all together; of a part of them about so much.
    """

    jobs: Sequence[tuple[int, int]] = ()
    weight: int = 0

    def __add__(self, other: Unstarted) -> Unstarted:
        return Unstarted([*self.jobs, *other.jobs], self.weight + other.weight)

    @property
    def ids(self) -> dict[int, list[int]]:
        """Their numbers, by assignment."""
        found: dict[int, list[int]] = {}
        for assignment, job_id in self.jobs:
            found.setdefault(assignment, []).append(job_id)
        return found

    def without(self, gone: Collection[int]) -> Unstarted:
        """Return those whose numbers are not among the ones that are gone."""
        return self._part([job for job in self.jobs if job[1] not in gone])

    def cut(self, weight: int) -> tuple[Unstarted, Unstarted]:
        """Divide them into some of about a weight, and the rest."""
        jobs = -(-weight * len(self.jobs) // max(1, self.weight))
        return self._part(self.jobs[:jobs]), self._part(self.jobs[jobs:])

    def batches(self, most: int) -> list[Unstarted]:
        """Divide them into parts of at most so many jobs."""
        starts = range(0, len(self.jobs), most)
        return [self._part(self.jobs[start : start + most]) for start in starts]

    def _part(self, jobs: Sequence[tuple[int, int]]) -> Unstarted:
        return Unstarted(jobs, self.weight * len(jobs) // max(1, len(self.jobs)))


@frozen
class Transfer:
    """Work to be moved: from or to the node of an incarnation, of up to a weight."""

    incarnation: int
    weight: int


def ahead_of(loads: Iterable[Load]) -> tuple[int, int]:
    """Return the weight that waits in workers, and how much of it is beyond what they may hold."""
    known = list(loads)
    ahead = sum(max(0, load.outstanding - load.capacity) for load in known)
    return ahead, sum(max(0, load.outstanding - load.limit) for load in known)


def tail_shares(loads: Sequence[Load], most: int | None) -> dict[int, int | None]:
    """Say how much of what waits each worker is to give up.

    Args:
        loads: What each holds.
        most: How much in all; None for all there is.

    Returns:
        Weight by worker, from the one with most waiting; None for all.
    """
    if most is None:
        return {load.key: None for load in loads}
    shares: dict[int, int | None] = {}
    for load in sorted(loads, key=lambda load: load.capacity - load.outstanding):
        shares[load.key] = share = min(most, max(0, load.outstanding - load.capacity))
        most -= share
    return shares


def theft(mine: NodeReport, peers: Sequence[NodeReport]) -> Transfer | None:
    """Decide which peer an idle node asks for work, and for how much.

    It asks once it holds less than half of its limit, and only a peer with more work waiting than
    itself: for what it can start at once, or its share of what waits there if that is more. So work
    is not asked back.
    """
    if mine.outstanding > mine.free or mine.idle == 0:
        return None
    victim = max(peers, key=lambda peer: peer.ahead, default=None)
    if victim is None or victim.ahead <= mine.ahead:
        return None
    part = min(MOST_STOLEN, (victim.ahead - mine.ahead) // (1 + len(peers)))
    return Transfer(victim.incarnation, max(part, min(mine.idle, victim.ahead)))


def overflow(mine: NodeReport, peers: Sequence[NodeReport]) -> list[Transfer]:
    """Share what a node holds beyond its room out to those that could start some of it at once."""
    return drain_shares(mine.excess, [peer for peer in peers if peer.idle > 0])


def drain_shares(weight: int, peers: Sequence[NodeReport]) -> list[Transfer]:
    """Share what a draining node has not started out to those with room, by their room.

    Args:
        weight: What there is.
        peers: The peers that may take some.

    Returns:
        Shares, none more than its peer has room for; the largest first.
    """
    room = sum(peer.free for peer in peers)
    if room == 0:
        return []
    part = min(1.0, weight / room)
    shares = [Transfer(peer.incarnation, -int(-peer.free * part // 1)) for peer in peers]
    return sorted((share for share in shares if share.weight), key=lambda share: -share.weight)


def _whole(said: dict[str, Any], name: str) -> int:
    value = said.get(name, 0)
    if not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise ValueError(f"{name} is no number of anything")
    return value
