"""Other masters: their rows in the database, reports and connections; the table of them; and what
this node reports to them: its load, its reactor lag, and what waits in its workers.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from txqueue.node.state.lease import Lease, Lifecycle
from txqueue.node.state.periodic import Periodic
from txqueue.policy.backoff import Backoff
from txqueue.policy.placement.credit import NodeLoad
from txqueue.policy.placement.peers import NodeReport
from txqueue.policy.placement.room import ahead_of
from txqueue.system.clock import Clock, Timer
from txqueue.system.processes import memory_of
from txqueue.wire.commands import Kept, Lives, ReportLoad, Steal, Take, WakePeer
from txqueue.wire.guarded_pipes import PeerPipe

if TYPE_CHECKING:
    from txqueue.node.workers.workload import Workers

# The timeout of an answer, in seconds.
PATIENCE = 5.0
# The timeout of a silent peer's answer, as its lease is about to expire.
SOON = 1.0
# The most assignments in one message.
MOST_NUMBERS = 1_000
# The range of the database's numbers.
LARGEST_NUMBER = 2**63 - 1
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
# Nodes that start together may not have each other's rows yet; log failures from this delay on.
LOUD_PAUSE = 8 * FIRST_PAUSE


@define(eq=False)
class Peer:
    """One other master.

    Attributes:
        row: The peer's row from the last heartbeat.
        pipe: The connection to the peer; None while there is none.
        report: The peer's last report over this connection; None before the first.
        heard_at: When the last report arrived, or the connection was made, by the reactor's clock.
        handed: The numbers of assignments to send to the peer in the reactor's next turn.
        dialling: Fires when this node has connected or failed to; None while it is not connecting.
        retry: The timer after which this node connects again.
        is_asked: Whether this node is answering the peer's request for work.
        answered_at: When this node last answered the peer's liveness check, by the monotonic clock.
    """

    row: dict[str, Any]
    pipe: PeerPipe | None = None
    report: NodeReport | None = None
    heard_at: float = float("-inf")
    handed: list[int] = field(factory=list)
    dialling: Deferred[None] | None = None
    retry: Timer | None = None
    is_asked: bool = False
    answered_at: float = float("-inf")
    _backoff: Backoff = field(factory=lambda: Backoff(FIRST_PAUSE, LONGEST_PAUSE))

    @property
    def name(self) -> str:
        """The peer's name."""
        return str(self.row["name"])

    @property
    def incarnation(self) -> int:
        """The incarnation of the peer."""
        return int(self.row["incarnation"])

    @property
    def is_sought(self) -> bool:
        """Whether the peer is connected, or this node is connecting or waits to connect again."""
        waits = self.retry is not None and self.retry.active()
        return self.pipe is not None or self.dialling is not None or waits

    @property
    def is_lasting_trouble(self) -> bool:
        """Whether connecting has failed so often that it is logged; true once in a series."""
        return self._backoff.pause == LOUD_PAUSE

    def describe(self) -> dict[str, Any]:
        """Return the peer's name, whether it is connected, and its reported load."""
        report = self.report
        return {
            "name": self.name,
            "is_connected": self.pipe is not None,
            "outstanding": report.outstanding if report else None,
            "lag": report.lag if report else None,
            "version": report.version if report else None,
        }

    def next_pause(self) -> float:
        """Return the seconds until this node connects again; they grow with each failure."""
        return self._backoff.take(random.random())

    def link(self, pipe: PeerPipe, now: float) -> None:
        """Use an authenticated connection to the peer, and close the former, dead or forged one."""
        former, self.pipe = self.pipe, pipe
        self.report = None
        self.heard_at = now
        if former is not None:
            former.close()

    def on_report(self, report: NodeReport, now: float) -> None:
        """Store a report of the peer, which shows that the connection works."""
        self.report = report
        self.heard_at = now
        self._backoff.reset()

    def unlink(self) -> None:
        """Forget the lost connection."""
        self.pipe = self.report = None
        self.handed.clear()

    def tell(self, report: str) -> None:
        """Send this node's report to the peer."""
        if self.pipe is not None:
            self.pipe.say(ReportLoad, load=report)

    def wake(self) -> None:
        """Notify the peer that there may be work, if it has room."""
        if self.pipe is not None and self.report is not None and self.report.free > 0:
            self.pipe.say(WakePeer)

    def forward(self, clock: Clock, assignments: Sequence[int]) -> None:
        """Send the peer the numbers of its new assignments, once per turn of the reactor."""
        if self.pipe is None or not assignments:
            return
        if not self.handed:
            clock.callLater(0, self._send, clock)
        self.handed += assignments

    def _send(self, clock: Clock) -> None:
        numbers, self.handed = self.handed[:MOST_NUMBERS], self.handed[MOST_NUMBERS:]
        if self.pipe is None or not numbers:
            return
        if self.handed:
            clock.callLater(0, self._send, clock)
        answer = self.pipe.say(Take, assignments=joined(numbers)).addTimeout(PATIENCE, clock)
        # If the message fails, the peer returns the jobs to the queue.
        answer.addErrback(lambda _: None)

    async def ask(self, clock: Clock, weight: int) -> tuple[list[int], int]:
        """Ask the peer for unstarted work; return the assignments and their weight."""
        if self.pipe is None:
            return [], 0
        answer = await self.pipe.say(Steal, weight=weight).addTimeout(PATIENCE, clock)
        return numbers_in(answer["assignments"]), answer["weight"]

    async def lives(self, clock: Clock) -> bool:
        """Ask the peer whether it is alive; return False if it is not connected."""
        if self.pipe is None:
            return False
        answer = await self.pipe.say(Lives).addTimeout(SOON, clock)
        return bool(answer["lives"])

    def tell_kept(self) -> None:
        """Notify the peer that this node has renewed the peer's lease."""
        if self.pipe is not None:
            self.pipe.say(Kept)

    def close(self) -> None:
        """Close the connection, and stop connecting."""
        if self.retry is not None and self.retry.active():
            self.retry.cancel()
        if self.dialling is not None:
            self.dialling.cancel()
        if self.pipe is not None:
            self.pipe.close()


def joined(numbers: Sequence[int]) -> str:
    """Return assignment numbers in the form in which messages carry them."""
    return ",".join(map(str, numbers))


def numbers_in(text: str) -> list[int]:
    """Read the assignment numbers of a message.

    Raises:
        ValueError: When the text has anything but valid assignment numbers.
    """
    numbers = [int(number) for number in text.split(",")[:MOST_NUMBERS] if number]
    if not all(0 < number <= LARGEST_NUMBER for number in numbers):
        raise ValueError("not an assignment number")
    return numbers


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
        """Send a peer the numbers of its new assignments; without them, it returns their jobs."""
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
            # A broken connection is reconnected; the reconciliation returns passed-on jobs.
            self.log.debug("{peer} gave no work: {error!r}", peer=peer.name, error=error)
            return [], 0

    def wake(self) -> None:
        """Notify the peers with room that there may be work."""
        for peer in self._peers.values():
            peer.wake()

    def describe(self) -> list[dict[str, Any]]:
        """Return each peer's name, whether it is connected, and its reported load."""
        return [peer.describe() for peer in self._peers.values()]


# Seconds between two measurements, and between those of a node without peers while it has no job.
BEAT, RESTING = 0.1, 1.0
# The fraction of the measured lag that remains after a beat: a stall shows for about a second.
FADING = 0.8
# Seconds for which a measurement of memory is used, as reading it costs more than all else in a
# report.
MEMORY_AGE = 1.0


@define(eq=False, repr=False, slots=False)
class LagMeter(Periodic):
    """Measures reactor lag, and the weight that waits in the workers, ten times a second.

    Args:
        clock: Times the measurements.
        workers: Have the jobs that wait in them.
        peers: Tell whether there are peers, which act on the measurements.

    Attributes:
        lag: Seconds by which the reactor has recently called timers late.
        steady: The weight that waits in the workers now and also waited a tenth of a second ago.
    """

    name = "lag"

    _workers: Workers
    _peers: PeerTable

    def __attrs_post_init__(self) -> None:
        self._due_at = float("inf")
        self._pause = BEAT
        self._waited = 0
        self.lag = 0.0
        self.steady = 0
        self._memory, self._memory_at = 0, float("-inf")

    @property
    def memory(self) -> int:
        """The memory of this process in bytes, at most a second old; 0 where the system does not
        report it.
        """
        now = time.monotonic()
        if now - self._memory_at >= MEMORY_AGE:
            self._memory, self._memory_at = memory_of(os.getpid()), now
        return self._memory

    async def step(self) -> float | None:
        """Measure once."""
        now, waits = time.monotonic(), ahead_of(self._workers.loads)[0]
        late = max(0.0, now - self._due_at)
        self.lag = round(max(late, self.lag * FADING ** (self._pause / BEAT)), 4)
        self.steady, self._waited = min(waits, self._waited), waits
        self._pause = BEAT if self._workers.load > 0 or self._peers.has_fresh else RESTING
        self._due_at = now + self._pause
        return self._pause


@define(eq=False, repr=False, slots=False)
class OwnReport:
    """Makes the report by which peers decide how to share work with this node.

    Args:
        lease: A node that cannot reach the database reports no room.
        lifecycle: Tells whether the node drains.
        workers: Have the load and its limit.
        lag: Measures reactor lag and the weight that waits in the workers.
    """

    _lease: Lease
    _lifecycle: Lifecycle
    _workers: Workers
    _lag: LagMeter

    def __attrs_post_init__(self) -> None:
        self._version = version("txqueue")

    def now(self) -> NodeReport:
        """Return the current report."""
        loads = self._workers.loads
        node_id, incarnation = self._lease.identity or (0, 0)
        # Without the database, this node could not read jobs that a peer hands over.
        has_room = self._lease.reaching is not None
        return NodeReport(
            node_id,
            incarnation,
            capacity=sum(load.capacity for load in loads),
            outstanding=sum(load.outstanding for load in loads),
            limit=sum(load.limit for load in loads) if has_room else 0,
            ahead=self._lag.steady,
            excess=ahead_of(loads)[1],
            workers=max(1, len(loads)),
            lag=self._lag.lag,
            memory=self._lag.memory,
            is_draining=self._lifecycle.is_draining,
            version=self._version,
        )
