"""A node's credits and clients that join it, in one process: no database, no socket."""

from collections.abc import Sequence
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.test.iosim import FakeTransport, connect

from txqueue.client.node_link import Membership
from txqueue.node.credits import Credits
from txqueue.node.deduplication import Deduplicator
from txqueue.policy.dispatch import NodeLoad, Room
from txqueue.store.direct_dispatch import Put
from txqueue.store.functions import Chunk
from txqueue.wire.pipe import PipeServer

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
        return {each.incarnation: each.weight for each in self.membership._stocks.values()}


class House:
    """A node of one worker with a capacity, and everything around its credits."""

    def __init__(self, capacity: int = 100) -> None:
        self.clock = Clock()
        self.capacity = capacity
        self.held = 0
        self.identity: tuple[int, int] | None = (NODE, INCARNATION)
        self.peers: list[NodeLoad] = []
        self.performed: list[Chunk] = []
        self.read: list[int] = []
        self.forwarded: dict[int, list[int]] = {}
        self.wakes = self.joins = 0
        self.is_up = True
        self.credits = Credits(
            self.clock,
            name="house",
            identity=lambda: self.identity,
            queue_identity=self._queue,
            room=self._room,
            peer_loads=lambda: self.peers,
            perform=self._perform,
            accept=Deduplicator().accept,
            read=self.read.extend,
            forward=lambda number, ids: self.forwarded.setdefault(number, []).extend(ids),
            wake=self._wake,
            joined=self._join,
        )
        self.server = PipeServer({}, greet=self.credits.greet)
        self.pumps: list[Any] = []

    def client(self, identity: str = QUEUE, *, answers: bool = True) -> Joined:
        """Have a client join, or try to; the node answers at once, or not yet."""
        membership = Membership(self.clock, _Door(self), identity)  # type: ignore[arg-type]
        client = Joined(membership, self.pumps)
        Deferred.fromCoroutine(membership.open())
        if answers:
            client.flush()
        return client

    def settled(self) -> None:
        """A claim has found the queue empty."""
        self.credits.looked(has_backlog=False)

    def hang_up(self) -> None:
        """End all connections, as a node does that ends."""
        self.server.hang_up()
        for pump in self.pumps:
            pump.flush()

    def _room(self) -> Room:
        free = max(0, self.capacity - self.held)
        return Room(free, self.capacity, free, self.capacity, int(free > 0))

    def _perform(self, chunks: Sequence[Chunk]) -> None:
        self.performed += chunks
        self.held += sum(chunk.weight for chunk in chunks)

    async def _queue(self) -> str:
        return QUEUE

    def _wake(self) -> None:
        self.wakes += 1

    def _join(self) -> None:
        self.joins += 1


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


def put(assignment: int, weight: int = 1, to: int = INCARNATION, text: str = "[]") -> Put:
    """A job that was enqueued assigned."""
    return Put(to, 2, assignment, weight, text)
