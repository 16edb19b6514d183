"""The node's end of direct dispatch: credit for joined clients, and the jobs they deliver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from txqueue.errors import TxqueueError
from txqueue.model.assignment import Assignment
from txqueue.model.humanize import plain
from txqueue.node.state.arrivals import Deduplicator, Inbox
from txqueue.node.state.lease import Lease, Lifecycle
from txqueue.node.state.periodic import Wakeups
from txqueue.policy.placement.credit import NodeLoad, credit_limit, new_credit
from txqueue.store.node.run_functions import HeartbeatReply
from txqueue.store.schema.files import QueueIdentity
from txqueue.system.clock import Clock
from txqueue.wire.commands import (
    CannotJoin,
    Credit,
    Deliver,
    Join,
    WakeNode,
    Withdraw,
    delivered,
)
from txqueue.wire.pipe import Pipe, Responders

if TYPE_CHECKING:
    from txqueue.node.peers.peer import PeerTable
    from txqueue.node.workers.workload import Workers
    from txqueue.store.node.functions import StoredFunctions

# A client may commit a transaction and vanish: for this many seconds after clients last held
# credit, the node polls often for jobs whose message was lost.
LINGER = 30.0
# How often the distribution of credit over nodes is reviewed, seconds.
EVEN_OUT = 1.0
# Characters of a client's database in the log.
_LONGEST_PLACE = 300


@define(eq=False)
class _Guest:
    """A connected process of an application.

    Attributes:
        pipe: The connection to the process.
        has_joined: Whether the process has joined, and so enqueues to this node's queue.
        stock: The credit that the process holds, by incarnation of the node it is for.
        spent: The weight of the jobs delivered since this credit was last renewed.
    """

    pipe: Pipe
    has_joined: bool = False
    stock: Counter[int] = field(factory=Counter)
    spent: int = 0


@define(eq=False, repr=False, slots=False)
class Credits:
    """Grants credit while the queue has no backlog and nodes have room; runs delivered jobs.

    Args:
        clock: Tells how long ago clients last held credit.
        queue: The queue; clients of another queue are refused.
        name: The node's name.
        lease: The node's lease; without it no credit is granted.
        lifecycle: A draining node grants no credit.
        workers: Run delivered jobs; their room limits the credit.
        peers: The other masters, whose room counts for credit too.
        deduplicator: Filters assignments that arrived before.
        inbox: Collects assignments that a client has named by number only.
        wakeups: Wakes the search for orphans when a client joins, and the claimer when one asks.
    """

    log = Logger()

    _clock: Clock
    _queue: StoredFunctions
    _name: str
    _lease: Lease
    _lifecycle: Lifecycle
    _workers: Workers
    _peers: PeerTable
    _deduplicator: Deduplicator
    _inbox: Inbox
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self._guests: list[_Guest] = []
        self._queue_identity = QueueIdentity("", "")
        self._was_draining = False
        self._has_backlog = True
        self._is_short = False
        self._out_at = self._evened_at = float("-inf")
        self._count = 0

    def greet(self, pipe: Pipe) -> tuple[Responders, Callable[[], None]]:
        """Return the handlers of a process's commands, and a function to call when it leaves."""
        guest = _Guest(pipe)

        def deliver(heads: str, chunks: str) -> dict[str, Any]:
            if guest.has_joined:
                self._delivered(guest, delivered(heads, chunks))
            return {}

        def join(identity: str, place: str | None = None) -> Deferred[dict[str, Any]]:
            queue = QueueIdentity(identity, place or "one that it does not name")
            return Deferred.fromCoroutine(self._join(guest, queue))

        return {Join: join, Deliver: deliver, WakeNode: self._woken}, lambda: self._left(guest)

    @property
    def are_out(self) -> bool:
        """Whether jobs may be on their way to this node by direct dispatch."""
        if any(guest.stock.total() for guest in self._guests):
            self._out_at = self._clock.seconds()
        return self._clock.seconds() - self._out_at < LINGER

    def describe(self) -> dict[str, int]:
        """Return how many processes have joined, their credit, and how many jobs they delivered."""
        credit = sum(guest.stock.total() for guest in self._guests)
        return {"joined": len(self._guests), "credit": credit, "delivered": self._count}

    def looked(self, *, has_backlog: bool) -> None:
        """Note whether a claim left ready jobs, which direct dispatch must not overtake."""
        if has_backlog != self._has_backlog:
            self._has_backlog = has_backlog
            self.review()
        elif self._clock.seconds() - self._evened_at >= EVEN_OUT:
            self._even_out()

    def room_made(self) -> None:
        """Grant credit that clients lack, as workers have room."""
        if self._is_short:
            self.review()

    def heard(self, reply: HeartbeatReply) -> None:
        """Withdraw all credit if draining has begun, and grant credit again if it has ended."""
        del reply
        is_draining, was_draining = self._lifecycle.is_draining, self._was_draining
        if is_draining != was_draining:
            self._was_draining = is_draining
            self.review()

    def review(self) -> None:
        """Grant and withdraw credit by the current loads."""
        nodes = self._nodes()
        for guest in self._guests:
            self._trim(guest, nodes)
        for guest in self._guests:
            self._fill(guest, self._nodes())

    def _nodes(self) -> list[NodeLoad]:
        """Return the nodes that credit may name, this node first; granted credit counts as load."""
        identity = self._lease.reaching
        if identity is None or self._lifecycle.is_draining or self._has_backlog:
            return []
        room = self._workers.room
        loads = [NodeLoad(*identity, room.limit - room.free, room.limit), *self._peers.loads()]
        return [
            evolve(load, outstanding=load.outstanding + self._reserved(load.incarnation))
            for load in loads
            if load.outstanding < load.capacity
        ]

    def _even_out(self) -> None:
        """Replace credit where other nodes are less loaded now, as peers come, go and fill up."""
        self._evened_at = self._clock.seconds()
        for guest in self._guests:
            had, guest.stock = guest.stock, Counter()
            nodes = self._nodes()
            guest.stock = had
            ideal = new_credit(nodes, credit_limit(nodes, len(self._guests)))
            if ideal.keys() != (+had).keys():
                self._trim(guest, [])
                self._fill(guest, self._nodes())

    def _reserved(self, incarnation: int) -> int:
        return sum(guest.stock[incarnation] for guest in self._guests)

    def _trim(self, guest: _Guest, nodes: Sequence[NodeLoad]) -> None:
        """Withdraw credit for nodes without room, and all credit of a client that has too much."""
        fine = {node.incarnation for node in nodes}
        if guest.stock.total() > credit_limit(nodes, len(self._guests)):
            fine = set()
        for incarnation in [key for key in guest.stock if key not in fine]:
            if guest.stock.pop(incarnation):
                guest.pipe.say(Withdraw, incarnation=incarnation)

    def _fill(self, guest: _Guest, nodes: Sequence[NodeLoad]) -> None:
        if not guest.has_joined or not nodes:
            self._is_short = True
            return
        lacking = credit_limit(nodes, len(self._guests)) - guest.stock.total()
        credit = new_credit(nodes, lacking)
        self._is_short = sum(credit.values()) < lacking
        for node in nodes:
            if weight := credit.get(node.incarnation):
                self._give(guest, node, weight)

    def _give(self, guest: _Guest, node: NodeLoad, weight: int) -> None:
        guest.stock[node.incarnation] += weight
        self._out_at = self._clock.seconds()
        identity = self._lease.reaching
        guest.pipe.say(
            Credit,
            node_id=node.node_id,
            incarnation=node.incarnation,
            weight=weight,
            is_own=identity is not None and identity.incarnation == node.incarnation,
        )

    async def _join(self, guest: _Guest, queue: QueueIdentity) -> dict[str, Any]:
        try:
            if queue.identity != self._queue_identity.identity:
                self._queue_identity = await self._queue.identity()
        except TxqueueError as error:
            raise CannotJoin(str(error)) from None
        if queue.identity != self._queue_identity.identity:
            self._refuse(queue)
        if not guest.has_joined:
            guest.has_joined = True
            self._guests.append(guest)
            self.review()
            self._wakeups.orphans.ring()
        return {"name": self._name}

    def _refuse(self, queue: QueueIdentity) -> None:
        """Refuse a process that enqueues to another queue.

        Raises:
            CannotJoin: Always; it tells which queue the node serves.
        """
        place = self._queue_identity.place
        self.log.error(
            "refused a process that enqueues to another queue, {meant}, than this node serves,"
            " {own}; its jobs are claimed, not delivered; give it this node's --dsn and --schema,"
            " or another TXQUEUE_NODE",
            meant=plain(queue.place)[:_LONGEST_PLACE],
            own=place,
        )
        raise CannotJoin(f"the node serves another queue, {place}")

    def _left(self, guest: _Guest) -> None:
        if guest in self._guests:
            self._guests.remove(guest)
            self._out_at = self._clock.seconds()
            self.review()

    def _woken(self) -> dict[str, Any]:
        """Claim at a client's request; notify the peers too if the workers here have no room."""
        self._wakeups.look_for_work()
        if not self._workers.room.free:
            self._peers.wake()
        return {}

    def _delivered(self, guest: _Guest, assignments: list[Assignment]) -> None:
        identity = self._lease.reaching
        accepted: list[Assignment] = []
        elsewhere: dict[int, list[int]] = {}
        for assignment in assignments:
            guest.stock[assignment.incarnation] = max(
                0, guest.stock[assignment.incarnation] - assignment.weight
            )
            guest.spent += assignment.weight
            if (
                identity is None
                or assignment.incarnation != identity.incarnation
                or not assignment.chunk
            ):
                elsewhere.setdefault(assignment.incarnation, []).append(assignment.number)
            elif self._deduplicator.accept(assignment.number):
                accepted.append(assignment)
        self._workers.perform(accepted)
        self._count += len(accepted)
        for incarnation, numbers in elsewhere.items():
            if identity is not None and incarnation == identity.incarnation:
                self._inbox.read(numbers)
            else:
                self._peers.forward(incarnation, numbers)
        if 3 * guest.spent >= guest.stock.total():
            self._refill(guest)

    def _refill(self, guest: _Guest) -> None:
        """Renew spent credit; this also detects full nodes."""
        guest.spent = 0
        nodes = self._nodes()
        self._trim(guest, nodes)
        self._fill(guest, nodes)
