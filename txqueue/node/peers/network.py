"""Keeps the connections to the other masters and exchanges loads with them."""

from __future__ import annotations

import time
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from attrs import define
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.node.peers.peer import PATIENCE, Peer, PeerTable, joined, numbers_in
from txqueue.node.state.lease import Lease, Lifecycle, ListeningPort
from txqueue.node.state.periodic import Periodic, Wakeups
from txqueue.policy.placement.peers import NodeReport
from txqueue.store.node.run_functions import HeartbeatReply
from txqueue.wire.commands import (
    Hello,
    Kept,
    Lives,
    NotAPeer,
    ReportLoad,
    Steal,
    Take,
    WakePeer,
)
from txqueue.wire.endpoints import Endpoint, INetworkReactor, is_loopback
from txqueue.wire.guarded_pipes import MOST_PEERS, Admission, Handlers, PeerPipe, dialled

if TYPE_CHECKING:
    from txqueue.node.leasing.heartbeats import LeaseKeeper
    from txqueue.node.peers.handover import Handover
    from txqueue.node.peers.peer import OwnReport

# Shortest interval between two reports when the load changes, and the regular interval; seconds.
TICK, LEAST = 0.1, 1.0
# Seconds of silence after which a peer is disconnected.
SILENCE = 6.0
# Shortest interval between two extra heartbeats, or two log lines, about unknown nodes; seconds.
LOOK_AGAIN = 1.0


@define(eq=False, repr=False, slots=False)
class PeerNetwork(Periodic):
    """Keeps one connection between this master and each other master.

    This master connects to those that started before it; those that start later connect to it.

    Args:
        clock: The reactor: connects, listens and schedules.
        name: This node's name.
        endpoint: Where this node listens.
        table: The table of peers and their reports.
        lease: Has the incarnation of this run.
        keeper: Notified when a peer has renewed the lease.
        lifecycle: Ends the node when it cannot listen.
        own: This node's report.
        exchange: Accepts work from peers, and passes work to peers that ask.
        wakeups: Wakes the claimer at a peer's request, and the heartbeats when an unknown node
            connects.
    """

    # Twisted's ClientService does not fit: this node connects to a peer only while heartbeats list
    # it, and accepts a connection from a peer that started later.

    name = "peer network"
    log = Logger()

    if TYPE_CHECKING:
        # Declared in the class itself it would follow the fields of the base that need it.
        _clock: INetworkReactor
    _name: str
    _endpoint: Endpoint
    _table: PeerTable
    _lease: Lease
    _keeper: LeaseKeeper
    _lifecycle: Lifecycle
    _own: OwnReport
    _exchange: Handover
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self._version = version("txqueue")
        self._handlers: Handlers = {
            Hello: self.on_hello,
            ReportLoad: self.on_report,
            Take: self.on_take,
            Steal: self.on_steal,
            WakePeer: self.on_wake,
            Lives: self.on_lives,
            Kept: self.on_kept,
        }
        is_secure = self._endpoint.credentials is not None
        make = partial(
            PeerPipe, self._clock, self._handlers, self.on_disconnect, is_secure=is_secure
        )
        self._server = Admission(make, MOST_PEERS)
        self._port = ListeningPort(self._clock, self._endpoint, self._lifecycle)
        self._incarnation = 0
        self._told: tuple[int, ...] | None = None
        self._told_at = self._looked_at = self._warned_at = float("-inf")

    def startService(self) -> None:
        """Begin to listen for peers."""
        super().startService()
        self._port.open(self._server)

    def stopService(self) -> Deferred[None] | None:
        """Stop listening, and close all connections."""
        finished = super().stopService()
        self._table.clear()
        self._server.hang_up()
        return self._port.close().addCallback(lambda _: finished)

    def on_heartbeat(self, reply: HeartbeatReply) -> None:
        """Disconnect peers that a heartbeat no longer lists, and connect to new ones."""
        if self._lease.incarnation != self._incarnation:
            self._table.clear()
            self._incarnation = self._lease.incarnation
        self._table.update({row["incarnation"]: row for row in reply.peers})
        for peer in self._table:
            if peer.incarnation < self._incarnation and self.running and not peer.is_sought:
                self._dial(peer)
        self.alarm.ring()

    async def step(self) -> float | None:
        """Send this node's report to all peers if it is due, and disconnect silent peers."""
        linked = [peer for peer in self._table if peer.pipe is not None]
        if not linked:
            return None
        now, report = self._clock.seconds(), self._own.now()
        if report.burden != self._told or now - self._told_at >= LEAST:
            self._told, self._told_at = report.burden, now
            text = report.as_text()
            for peer in linked:
                peer.tell(text)
        for peer in linked:
            if now - peer.heard_at > SILENCE and peer.pipe is not None:
                peer.pipe.drop("is silent")
        return TICK

    # Calls by the connections.

    def on_hello(
        self, pipe: PeerPipe, name: str, incarnation: int, version: str
    ) -> dict[str, object]:
        """Check the identity that a peer claims against its certificate and the last heartbeat."""
        del version
        peer = self._table.peer(incarnation)
        is_certified = pipe.certified is None or pipe.certified == name
        if not is_certified or pipe.is_known:
            raise NotAPeer("the certificate names another node")
        if peer is None or peer.name != name or incarnation < self._incarnation:
            self._ask_to_look_again()
            raise NotAPeer("no such node is registered as running")
        pipe.introduce()
        self._link(peer, pipe)
        return self._introduction()

    def on_report(self, pipe: PeerPipe, load: str) -> dict[str, object]:
        """Store a peer's report."""
        peer = self._table.at(pipe)
        if peer is not None:
            peer.on_report(NodeReport.read(peer.row, load), self._clock.seconds())
        return {}

    def on_take(self, pipe: PeerPipe, assignments: str) -> dict[str, object]:
        """Accept work that a peer hands over."""
        if self._table.at(pipe) is not None and self.running:
            self._exchange.accept(numbers_in(assignments))
        return {}

    def on_steal(self, pipe: PeerPipe, weight: int) -> Deferred[dict[str, object]]:
        """Pass work to a peer that asks for it."""
        return Deferred.fromCoroutine(self._give(pipe, weight))

    def on_wake(self, pipe: PeerPipe) -> dict[str, object]:
        """Look for work at a peer's request."""
        if self._table.at(pipe) is not None:
            self._wakeups.look_for_work()
        return {}

    def on_lives(self, pipe: PeerPipe) -> dict[str, object]:
        """Answer a peer's liveness check."""
        peer = self._table.at(pipe)
        if peer is not None:
            peer.answered_at = time.monotonic()
        return {"lives": peer is not None and bool(self.running)}

    def on_kept(self, pipe: PeerPipe) -> dict[str, object]:
        """Note that a peer has renewed this node's lease."""
        peer = self._table.at(pipe)
        if peer is not None and self.running:
            self._keeper.renew_by_peer(peer.answered_at)
        return {}

    def on_disconnect(self, pipe: PeerPipe) -> None:
        """Forget a lost connection; connect again later if this node had connected."""
        self._server.forget(pipe)
        if pipe.why_dropped is not None and self.running:
            self._warn_of(pipe)
        peer = self._table.at(pipe)
        if peer is not None:
            peer.unlink()
            self._dial_again(peer)

    async def _give(self, pipe: PeerPipe, weight: int) -> dict[str, object]:
        peer = self._table.at(pipe)
        if peer is None or peer.is_asked or weight <= 0:
            return {"assignments": "", "weight": 0}
        peer.is_asked = True
        try:
            assignments, passed = await self._exchange.surrender(peer.incarnation, weight)
        except Exception as error:
            self.log.warn("no work for {peer}: {error!r}", peer=peer.name, error=error)
            assignments, passed = [], 0
        finally:
            peer.is_asked = False
        return {"assignments": joined(assignments), "weight": passed}

    def _introduction(self) -> dict[str, object]:
        return {
            "name": self._name,
            "incarnation": self._incarnation,
            "version": self._version,
        }

    def _link(self, peer: Peer, pipe: PeerPipe) -> None:
        peer.link(pipe, self._clock.seconds())
        self.log.info("connected with peer {peer}", peer=peer.name)
        # Send the report after the answer to the greeting; the peer accepts none before.
        self._told = None
        self._clock.callLater(0, self.alarm.ring)

    def _dial(self, peer: Peer) -> None:
        peer.dialling = Deferred.fromCoroutine(self._meet(peer))
        peer.dialling.addErrback(self._not_met, peer)
        peer.dialling.addCallback(lambda _: self._dialled(peer))

    async def _meet(self, peer: Peer) -> None:
        """Connect to a peer, and check that it is the node in the database."""
        pipe = await dialled(self._clock, self._place_of(peer), self._handlers, self.on_disconnect)
        try:
            if pipe.certified is not None and pipe.certified != peer.name:
                raise NotAPeer(f"the certificate there is {pipe.certified}'s")
            asking = pipe.say(Hello, **self._introduction())
            answer = await asking.addTimeout(PATIENCE, self._clock)
            if (answer["name"], answer["incarnation"]) != (peer.name, peer.incarnation):
                raise NotAPeer(f"{answer['name']} answers there")
        except BaseException:
            pipe.close()
            raise
        pipe.introduce()
        self._link(peer, pipe)

    def _place_of(self, peer: Peer) -> Endpoint:
        address, credentials = peer.row["address"], self._endpoint.credentials
        if credentials is None and not is_loopback(address):
            raise NotAPeer(f"{address} is beyond this host, and this node has no --tls-dir")
        return Endpoint(None, peer.row["port"], host=address, credentials=credentials)

    def _dialled(self, peer: Peer) -> None:
        peer.dialling = None
        self._dial_again(peer)

    def _not_met(self, failure: Failure, peer: Peer) -> None:
        if self.running and peer.is_lasting_trouble:
            self.log.warn(
                "peer {peer} cannot be reached: {error!r}", peer=peer.name, error=failure.value
            )

    def _dial_again(self, peer: Peer) -> None:
        is_known = self._table.peer(peer.incarnation) is peer
        is_ours = is_known and peer.incarnation < self._incarnation
        if self.running and is_ours and not peer.is_sought:
            peer.retry = self._clock.callLater(peer.next_pause(), self._dial, peer)

    def _ask_to_look_again(self) -> None:
        now = self._clock.seconds()
        if now - self._looked_at >= LOOK_AGAIN:
            self._looked_at = now
            self._wakeups.heartbeats.ring()

    def _warn_of(self, pipe: PeerPipe) -> None:
        now = self._clock.seconds()
        if now - self._warned_at >= LOOK_AGAIN:
            self._warned_at = now
            peer = self._table.at(pipe)
            self.log.warn(
                "disconnected {who}: {why}",
                who="an unidentified peer" if peer is None else peer.name,
                why=pipe.why_dropped,
            )
