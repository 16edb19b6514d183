"""Grants credit to clients that have joined the node, and to any session; runs the jobs that they
assign to it.
"""

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
from txqueue.node.arrival.notifications import DatabaseNotices
from txqueue.node.state.arrivals import Deduplicator
from txqueue.node.state.lease import Lease, Lifecycle
from txqueue.node.state.periodic import Periodic, Wakeups
from txqueue.policy.placement.credit import (
    CreditGrants,
    NodeLoad,
    credit_limit,
    new_credit,
    open_credit,
)
from txqueue.store.node.functions import StoredFunctions
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
    from txqueue.node.workers.completions import Completions
    from txqueue.node.workers.workload import Workers
    from txqueue.store.driver.listener import Listener
    from txqueue.store.node.functions import StoredFunctions


@define(eq=False, repr=False, slots=False)
class Intake:
    """Takes each assignment once, though several messages may name it.

    Jobs that a client's message brings do not pass here.

    Args:
        workers: Run the jobs.
        deduplicator: Filters assignments that arrived before.
        lifecycle: A draining node returns what arrives.
        records: Returns jobs to the queue.
    """

    _workers: Workers
    _deduplicator: Deduplicator
    _lifecycle: Lifecycle
    _records: Completions

    def take(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        """Run assignments, or return them to the queue if the node drains.

        Returns:
            Those that had not arrived before.
        """
        accepted = [
            assignment for assignment in assignments if self._deduplicator.accept(assignment.number)
        ]
        if accepted:
            # A job may be named again when the deduplicator has long forgotten it.
            held = frozenset(self._workers.assignments)
            accepted = [assignment for assignment in accepted if assignment.number not in held]
        if not self._lifecycle.is_draining:
            self._workers.perform(accepted)
            return accepted
        for assignment in accepted:
            self._records.give_back(assignment.number, died=False)
        return accepted


# The most assignments that wait to be read, as each costs a statement; the reconciliation returns
# the jobs of all others.
MOST_NAMED = 2_000


@define(eq=False, repr=False, slots=False)
class Inbox(Periodic):
    """Reads the assignments that messages of clients and peers have named by their numbers only.

    Args:
        clock: Times the retries.
        functions: The stored functions.
        lease: The node's lease; without it nothing is read.
        intake: Takes the jobs.

    Attributes:
        received: How many jobs this service has read so far.
    """

    name = "inbox"

    _functions: StoredFunctions
    _lease: Lease
    _intake: Intake
    received: int = field(init=False, default=0)
    _named: dict[int, None] = field(init=False, factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether all assignments that were named are read."""
        return not self._named

    def read(self, assignments: Sequence[int]) -> None:
        """Have assignments read, each once."""
        left = MOST_NAMED - len(self._named)
        self._named.update(dict.fromkeys(assignments[:left]))
        self.alarm.ring()

    async def step(self) -> float | None:
        """Read all assignments that were named, and run their jobs."""
        while self._named:
            if (identity := self._lease.identity) is None:
                self._named.clear()
                break
            number = next(iter(self._named))
            taken = self._intake.take(
                await self._functions.direct_jobs(identity.incarnation, number)
            )
            self.received += sum(assignment.jobs for assignment in taken)
            del self._named[number]
        return None


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
        clock: Times the reviews of the credit.
        queue: The queue; clients of another queue are refused.
        name: The node's name.
        lease: The node's lease; without it no credit is granted.
        lifecycle: A draining node grants no credit.
        workers: Run delivered jobs; their room limits the credit.
        peers: The other masters, whose room counts for credit too.
        deduplicator: Filters assignments that arrived before.
        inbox: Reads assignments that a client has named by number only.
        wakeups: Wakes the claimer when a client asks, and the reconciliation when one leaves.
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
        self._evened_at = float("-inf")
        self._count = 0

    def greet(self, pipe: Pipe) -> tuple[Responders, Callable[[], None]]:
        """Return the handlers of a process's commands, and a function to call when it leaves."""
        guest = _Guest(pipe)

        def deliver(heads: str, chunks: str) -> dict[str, Any]:
            if guest.has_joined:
                self._on_delivery(guest, delivered(heads, chunks))
            return {}

        def join(identity: str, place: str | None = None) -> Deferred[dict[str, Any]]:
            queue = QueueIdentity(identity, place or "one that it does not name")
            return Deferred.fromCoroutine(self._join(guest, queue))

        responders: Responders = {Join: join, Deliver: deliver, WakeNode: self._on_wake}
        return responders, lambda: self._on_leave(guest)

    def describe(self) -> dict[str, int]:
        """Return how many processes have joined, their credit, and how many jobs they delivered."""
        credit = sum(guest.stock.total() for guest in self._guests)
        return {"joined": len(self._guests), "credit": credit, "delivered": self._count}

    def on_backlog(self, *, has_backlog: bool) -> None:
        """Note whether a claim left ready jobs, which direct dispatch must not overtake."""
        if has_backlog != self._has_backlog:
            self._has_backlog = has_backlog
            self.review()
        elif self._clock.seconds() - self._evened_at >= EVEN_OUT:
            self._even_out()

    def on_room(self) -> None:
        """Grant credit that clients lack, as workers have room."""
        if self._is_short:
            self.review()

    def on_heartbeat(self, reply: HeartbeatReply) -> None:
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

    def _on_leave(self, guest: _Guest) -> None:
        if guest in self._guests:
            self._guests.remove(guest)
            self.review()
            # It may have died after the commit of a job and before the message that brings it.
            self._wakeups.doubt()

    def _on_wake(self) -> dict[str, Any]:
        """Claim at a client's request; notify the peers too if the workers here have no room."""
        self._wakeups.look_for_work()
        if not self._workers.room.free:
            self._peers.wake()
        return {}

    def _on_delivery(self, guest: _Guest, assignments: list[Assignment]) -> None:
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


@define(eq=False, repr=False, slots=False)
class OpenCredit(Periodic):
    """Grants open credit while the queue has no backlog and the workers have room.

    A session of any client, which need not have joined a node, takes of this credit when it
    enqueues a job, and so assigns the job to this node. The notification of the commit brings the
    job, on a channel of which only the node and the server know the name.

    Args:
        clock: Tells how old the credit is.
        functions: The stored functions.
        listener: Receives the notifications; while it does not, no credit is granted.
        notices: Passes on the jobs that notifications bring.
        lease: The node's lease; without it no credit is granted.
        lifecycle: A draining node grants no credit.
        workers: Their room limits the credit.
        intake: Takes the jobs.
        wakeups: Has the service's alarm, and the node's place among those that can take the same
            jobs.

    Attributes:
        received: How many jobs were enqueued as assigned to this node by open credit.
    """

    name = "open credit"

    _functions: StoredFunctions
    _listener: Listener
    _notices: DatabaseNotices
    _lease: Lease
    _lifecycle: Lifecycle
    _workers: Workers
    _intake: Intake
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self.alarm = self._wakeups.open_credit
        self._notices.on_jobs = self._on_jobs
        self._grants = CreditGrants()
        # Another node's credit, which kept this one from granting any.
        self._unused: int | None = None
        self.received = 0

    def _on_jobs(self, jobs: Sequence[Assignment]) -> None:
        """Run jobs that notifications have brought; those of another run are no longer ours."""
        identity = self._lease.identity
        run = None if identity is None else identity.incarnation
        accepted = self._intake.take([job for job in jobs if job.incarnation == run])
        if accepted:
            self.received += len(accepted)
            self._grants.add_spent(len(accepted))
        if self._is_renewed:
            self.alarm.ring()

    def on_miss(self) -> None:
        """Grant credit if it is used up: a job was claimed that might have taken of it."""
        if self._grants.on_miss(self._clock.seconds()):
            self.alarm.ring()

    def on_claim(self, jobs: int) -> None:
        """Withdraw the credit if jobs come too fast for it, most of which are claimed anyway."""
        if self._grants.add_claimed(jobs, self._clock.seconds()):
            self.alarm.ring()

    def on_backlog(self, *, has_backlog: bool) -> None:
        """Withdraw the credit if a claim has left ready jobs, which others must not overtake."""
        if self._grants.on_backlog(has_backlog=has_backlog):
            self.alarm.ring()

    async def step(self) -> float | None:
        """Grant or withdraw credit if that is due."""
        if (identity := self._lease.identity) is not None:
            await self._review(identity.incarnation)
        return None

    @property
    def _is_renewed(self) -> bool:
        """Whether to renew the credit; with other nodes, one of them gets the next turn."""
        return self._grants.is_half_spent and self._is_alone

    async def _review(self, incarnation: int) -> None:
        """Grant as much credit as this node may give now, or withdraw it."""
        now, had = self._clock.seconds(), self._grants.granted
        self._grants.judge_pace(now)
        offer = self._offer
        if not self._grants.grant(offer, now, is_renewed=self._is_renewed):
            return
        try:
            await self._grant(incarnation, offer)
        except Exception:
            # Either may be so now.
            self._grants.granted = max(had, offer)
            raise

    async def _grant(self, incarnation: int, offer: int) -> None:
        self._unused = await self._functions.grant_credit(incarnation, offer, self._unused)
        if self._unused is not None:
            self._grants.withhold(self._clock.seconds())

    @property
    def _offer(self) -> int:
        """How many jobs may be enqueued as assigned to this node now."""
        identity = self._lease.reaching
        if identity is None or self._lifecycle.is_draining or self._grants.has_backlog:
            return 0
        if not self._listener.listens_on(self._functions.channel_of(identity.incarnation)):
            return 0
        if self._grants.is_resting(self._clock.seconds()):
            return 0
        return open_credit(self._workers.room, is_alone=self._is_alone)

    @property
    def _is_alone(self) -> bool:
        place = self._wakeups.place
        return place is not None and place.of == 1
