"""A node's credits and clients that join it, in one process: no database, no socket."""

from collections.abc import Sequence
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.test.iosim import FakeTransport, connect

from tests.unit.node.doubles import Loop, Named, Workers, fake, lease_of
from txqueue.client.node_link import Membership
from txqueue.model.assignment import Assignment
from txqueue.node.arrival.assigned import Credits
from txqueue.node.state.arrivals import Deduplicator
from txqueue.node.state.lease import Identity, Lifecycle
from txqueue.node.state.periodic import Wakeups
from txqueue.policy.placement.credit import NodeLoad
from txqueue.store.schema.files import QueueIdentity
from txqueue.wire.guarded_pipes import PipeServer

QUEUE = "b1946ac9"
NODE, INCARNATION = 3, 7


@define
class Joined:
    """A client, and what carries its bytes."""

    membership: Membership
    pumps: list[Any]

    def flush(self) -> None:
        """Carry all bytes."""
        for pump in self.pumps:
            pump.flush()

    @property
    def credit(self) -> dict[int, int]:
        """Its credit, by incarnation."""
        return {each.incarnation: each.weight for each in self.membership._credits.values()}


class House:
    """A node of one worker with a capacity, and everything around its credits."""

    def __init__(self, capacity: int = 100) -> None:
        self.clock = Clock()
        self.workers = Workers(capacity)
        self.lease = lease_of(INCARNATION, NODE)
        self.lifecycle = Lifecycle(fake(Loop()))
        self.wakeups = Wakeups(self.clock)
        self.inbox = Named()
        self.peers: list[NodeLoad] = []
        self.forwarded: dict[int, list[int]] = {}
        self.peers_woken = 0
        self.is_up = True
        self.queue = QUEUE
        self.credits = Credits(
            self.clock,
            fake(self),
            name="house",
            lease=self.lease,
            lifecycle=self.lifecycle,
            workers=fake(self.workers),
            peers=fake(self),
            deduplicator=Deduplicator(),
            inbox=fake(self.inbox),
            wakeups=self.wakeups,
        )
        self.server = PipeServer({}, 32, self.credits.greet)
        self.pumps: list[Any] = []

    def client(self, identity: str = QUEUE, *, answers: bool = True) -> Joined:
        """Have a client join, or try to; the node answers at once, or not yet."""

        async def read() -> QueueIdentity:
            return QueueIdentity(identity, f"the database of {identity}")

        membership = Membership(self.clock, _Door(self), read)  # type: ignore[arg-type]
        client = Joined(membership, self.pumps)
        Deferred.fromCoroutine(membership.open())
        if answers:
            client.flush()
        return client

    def settled(self) -> None:
        """A claim has found the queue empty."""
        self.credits.on_backlog(has_backlog=False)

    def hang_up(self) -> None:
        """End all connections, as a node does that ends."""
        self.server.hang_up()
        for pump in self.pumps:
            pump.flush()

    def begins_anew(self) -> None:
        """Another run of the node has a lease."""
        self.lease.register(Identity(NODE, INCARNATION + 1))

    async def identity(self) -> QueueIdentity:
        """The queue that it serves."""
        return QueueIdentity(self.queue, f"the database of {self.queue}")

    def loads(self) -> list[NodeLoad]:
        """What its peers hold."""
        return self.peers

    def forward(self, incarnation: int, assignments: Sequence[int]) -> None:
        """Record a message to a peer."""
        self.forwarded.setdefault(incarnation, []).extend(assignments)

    def wake(self) -> None:
        """Count the wake-ups of peers."""
        self.peers_woken += 1


@define
class _Door:
    """Stands for an endpoint."""

    house: House

    def connect(self, reactor: Any, factory: Any, timeout: int) -> Deferred[Any]:
        """Connect, unless the node is away."""
        if not self.house.is_up:
            return fail(ConnectionRefusedError())
        pipe = factory.buildProtocol(None)
        server: Any = self.house.server.buildProtocol(None)
        pump = connect(
            server,
            FakeTransport(server, isServer=True),
            pipe,
            FakeTransport(pipe, isServer=False),
        )
        self.house.pumps.append(pump)
        done: Deferred[Any] = Deferred()
        done.callback(pipe)
        return done


def put(assignment: int, weight: int = 1, to: int = INCARNATION, chunk: str = "[]") -> Assignment:
    """A job that was enqueued assigned."""
    return Assignment(to, assignment, 2, 1, weight, chunk)
