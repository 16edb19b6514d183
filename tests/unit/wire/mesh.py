"""Masters' peers on ports of this host, without masters behind them, and strangers who call."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from tests.cluster.peers import free_port
from tests.unit.node.doubles import Loop, fake, lease_of
from tests.waiting import eventually, running_reactor
from txqueue.node.peers.network import PeerNetwork
from txqueue.node.peers.peer import Peer, PeerTable
from txqueue.node.state.lease import Lifecycle
from txqueue.node.state.periodic import Alarm, Wakeups
from txqueue.policy.placement.peers import NodeReport
from txqueue.store.node.run_functions import HeartbeatReply
from txqueue.system.clock import Clock
from txqueue.wire.commands import Hello, ReportLoad
from txqueue.wire.endpoints import Endpoint
from txqueue.wire.pipe import Pipe, PipeFactory
from txqueue.wire.tls import Credentials

LIMIT = 20.0


class Counted(Wakeups):
    """Alarms without waiting services, and how often they were rung."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.looks = self.beats = 0
        self.heartbeats = Ring(self)

    def look_for_work(self, freed: object = None) -> None:
        """Count it."""
        self.looks += 1


class Ring(Alarm):
    """The alarm of heartbeats that are counted."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    def ring(self) -> None:
        """Count it."""
        self._counted.beats += 1


class Member:
    """One master's peers: the messages to them, and their answers.

    Args:
        name: The node's.
        incarnation: Its run; of two members the one with the larger number dials.
        folder: Where its certificate is; None for plaintext.
        who: Whose certificate it shows, if not its own.
        interface: The address at which it listens; None for the usual one.
    """

    def __init__(
        self,
        name: str,
        incarnation: int,
        folder: Path | None = None,
        who: str | None = None,
        *,
        interface: str | None = None,
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        credentials = None if folder is None else Credentials(folder, who or name)
        self.endpoint = Endpoint(None, free_port(), credentials=credentials)
        if interface is not None:
            self.endpoint = evolve(self.endpoint, interface=interface)
        self.report = NodeReport(incarnation, incarnation, 10, 0, 10)
        self.numbers: list[int] = []
        self.clock = running_reactor()
        self.lease = lease_of(incarnation, incarnation)
        self.wakeups = Counted(self.clock)
        self.table = PeerTable(self.clock)
        self.answers_that_kept: list[float] = []
        self.surrendered: list[tuple[int, int]] = []
        self.answer: Deferred[tuple[list[int], int]] | None = None
        self.peers = PeerNetwork(
            self.clock,
            name=name,
            endpoint=self.endpoint,
            table=self.table,
            lease=self.lease,
            keeper=fake(self),
            lifecycle=Lifecycle(fake(Loop())),
            own=fake(self),
            exchange=fake(self),
            wakeups=self.wakeups,
        )

    @property
    def woken(self) -> int:
        """How often peers reported possible work."""
        return self.wakeups.looks

    @property
    def looked_again(self) -> int:
        """How often a heartbeat was asked for."""
        return self.wakeups.beats

    @property
    def row(self) -> dict[str, Any]:
        """Its row in a heartbeat's answer."""
        return {
            "node_id": self.incarnation,
            "name": self.name,
            "incarnation": self.incarnation,
            "address": self.endpoint.interface,
            "port": self.endpoint.port,
            "state": "alive",
            "capacity": 10,
            "queues": ["default"],
            "work_types": [],
            "silence": 0.0,
        }

    @property
    def commands(self) -> int:
        """How many commands it has carried out."""
        return len(self.numbers) + self.woken + len(self.surrendered)

    @property
    def connected(self) -> list[str]:
        """The connected peers with a report."""
        said = self.table.describe()
        return [peer["name"] for peer in said if peer["outstanding"] is not None]

    def hears(self, *others: "Member", **changes: object) -> None:
        """Have a heartbeat name its peers."""
        rows = [{**other.row, **changes} for other in others]
        self.peers.on_heartbeat(HeartbeatReply(owned=True, state="alive", peers=rows, cancels=[]))

    def peer(self, incarnation: int) -> Peer:
        """Another one as it sees it."""
        peer = self.table.peer(incarnation)
        assert peer is not None
        return peer

    def has(self, outstanding: int) -> None:
        """Have another load."""
        self.report = evolve(self.report, outstanding=outstanding)

    def now(self) -> NodeReport:
        """Its report."""
        return self.report

    def accept(self, assignments: Sequence[int]) -> None:
        """Note what a peer hands over."""
        self.numbers += assignments

    async def surrender(self, incarnation: int, weight: int) -> tuple[list[int], int]:
        """Give two jobs, or what the test answers."""
        self.surrendered.append((incarnation, weight))
        return await self.answer if self.answer is not None else ([7, 8], 2)

    def renew_by_peer(self, answered_at: float) -> None:
        """Note that a peer has renewed the lease."""
        self.answers_that_kept.append(answered_at)


Start = Callable[..., Member]


async def stopped(members: Sequence[Member]) -> None:
    """Have members listen no more."""
    for member in members:
        stopping = member.peers.stopService()
        if stopping is not None:
            await stopping


async def met(*members: Member) -> None:
    """Make all nodes known to each other, and wait until all are connected."""
    for member in members:
        member.hears(*(other for other in members if other is not member))
    names = sorted(member.name for member in members)

    def have_met() -> bool:
        return all(sorted([*each.connected, each.name]) == names for each in members)

    await eventually(have_met, LIMIT)


class Wire(Protocol):
    """A connection that sends what it likes."""

    def __init__(self) -> None:
        self.received = b""
        self.gone: Deferred[None] = Deferred()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        transport: Any = self.transport
        transport.write(data)

    def hang_up(self) -> None:
        """Close it."""
        transport: Any = self.transport
        transport.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        """Keep what comes."""
        self.received += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell who waits."""
        del reason
        self.gone.callback(None)


async def wired(member: Member) -> Wire:
    """Connect to a member without any protocol."""
    point = TCP4ClientEndpoint(running_reactor(), member.endpoint.interface, member.endpoint.port)
    factory: Any = Factory.forProtocol(Wire)
    wire = await point.connect(factory)
    assert isinstance(wire, Wire)
    return wire


class Caller:
    """A stranger who speaks AMP, with a certificate or without."""

    def __init__(self) -> None:
        self.gone: Deferred[None] = Deferred()
        self.pipe = Pipe({ReportLoad: lambda load: {}}, lost=lambda: self.gone.callback(None))  # noqa: ARG005

    async def calls(self, member: Member, credentials: Credentials | None) -> None:
        """Connect to a member."""
        place = evolve(member.endpoint, credentials=credentials)
        await place.connect(running_reactor(), PipeFactory(self.pipe), 5)

    async def says(self, command: Any, **arguments: object) -> Any:
        """Send a command; return the answer, or None if the connection closes."""
        return await self.pipe.say(command, **arguments)

    def hang_up(self) -> None:
        """Close the connection."""
        transport: Any = self.pipe.transport
        with suppress(AttributeError):
            transport.abortConnection()


async def introduced(a: Member, name: str = "b", incarnation: int = 2) -> Caller:
    """A caller on this host that is taken for another node."""
    caller = Caller()
    await caller.calls(a, None)
    await caller.says(Hello, name=name, incarnation=incarnation, version="")
    return caller
