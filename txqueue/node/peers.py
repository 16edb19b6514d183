"""The other masters: found by heartbeats, connected, and told how loaded this one is."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from importlib.metadata import version
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.node.peer import PATIENCE, Peer, joined, numbers_in
from txqueue.node.periodic import Periodic
from txqueue.policy.balancing import NodeReport
from txqueue.policy.dispatch import NodeLoad
from txqueue.wire.endpoints import Endpoint, is_loopback
from txqueue.wire.peer_commands import Hello, NotAPeer
from txqueue.wire.peer_connection import PeerPipe, PeerServer, dialled

__all__ = ["Peers"]

# Loads are told when they change, at most so often, and else so often; seconds.
TICK, LEAST = 0.1, 1.0
# Older loads are not acted on; a peer that is silent for longer is disconnected; seconds.
FRESH, SILENCE = 3.0, 6.0
# A stranger has the heartbeat look again, at most so often, seconds; as many are logged.
LOOK_AGAIN = 1.0


class Peers(Periodic):
    """Keeps a connection to each other master; of two the one that started later dials.

    Args:
        reactor: Connects, listens and times.
        name: This node's.
        endpoint: Where it listens.
        load: Returns what it says of itself.
        taken: Told of assignments that were handed to this node.
        surrender: Passes unstarted work of up to a weight on to a node, and returns the assignments
            and their weight.
        woken: Called when there may be jobs to claim.
        look_again: Called when a caller claims to be a node that the last heartbeat did not name.
        kept: Told from which moment of the monotonic clock on a peer has renewed the lease.
        failed: Called when it cannot listen.
    """

    name = "peers"
    log = Logger()

    def __init__(
        self,
        reactor: Any,
        *,
        name: str,
        endpoint: Endpoint,
        load: Callable[[], NodeReport],
        taken: Callable[[Sequence[int]], None],
        surrender: Callable[[int, int], Coroutine[Any, Any, tuple[list[int], int]]],
        woken: Callable[[], None],
        look_again: Callable[[], None],
        kept: Callable[[float], None],
        failed: Callable[[], None],
    ) -> None:
        super().__init__(reactor)
        self._reactor = reactor
        self._name = name
        self._version = version("txqueue")
        self._endpoint = endpoint
        self._load = load
        self._taken = taken
        self._surrender = surrender
        self._woken = woken
        self._look_again = look_again
        self._kept = kept
        self._failed = failed
        self._server = PeerServer(reactor, self, is_secure=endpoint.credentials is not None)
        self._listening: Deferred[Any] | None = None
        self._incarnation = 0
        self._peers: dict[int, Peer] = {}
        self._told: tuple[int, ...] | None = None
        self._told_at = self._looked_at = self._warned_at = float("-inf")

    def startService(self) -> None:
        """Begin to listen."""
        super().startService()
        self._listening = self._endpoint.listen(self._reactor, self._server)
        self._listening.addErrback(self._cannot_listen)

    def stopService(self) -> Deferred[None] | None:
        """Listen no more, and hang up."""
        finished = super().stopService()
        self._forget(self._peers)
        self._server.hang_up()
        if self._listening is None:
            return finished
        return self._listening.addCallback(_closed).addCallback(lambda _: finished)

    # What the services of this node ask.

    def heard(self, incarnation: int, rows: Sequence[dict[str, Any]]) -> None:
        """Take the living peers from a heartbeat: drop the others, dial the new ones."""
        if incarnation != self._incarnation:
            self._forget(self._peers)
            self._incarnation = incarnation
        living = {row["incarnation"]: row for row in rows}
        self._forget(self._peers.keys() - living.keys())
        for number, row in living.items():
            peer = self._peers.setdefault(number, Peer(row))
            peer.row = row
            if number < incarnation and self.running and not peer.is_sought:
                self._dial(peer)
        self.alarm.ring()

    @property
    def reports(self) -> list[NodeReport]:
        """What the peers said of themselves, as far as it is fresh."""
        oldest = self._reactor.seconds() - FRESH
        known = (peer for peer in self._peers.values() if peer.heard_at >= oldest)
        return [peer.report for peer in known if peer.report is not None]

    def loads(self) -> list[NodeLoad]:
        """The same for the service that grants credit."""
        return [report.as_load for report in self.reports]

    def has_idle(self, queues: set[str], work_types: set[str]) -> bool:
        """Tell whether one that serves all of these runs next to nothing, as it said just now."""
        able = {
            number
            for number, peer in self._peers.items()
            if queues <= set(peer.row["queues"]) and work_types <= set(peer.row["work_types"])
        }
        return any(report.is_idle for report in self.reports if report.incarnation in able)

    def forward(self, incarnation: int, assignments: Sequence[int]) -> None:
        """Tell a peer that jobs are assigned to it; if the message is lost, it finds them."""
        peer = self._peers.get(incarnation)
        if peer is not None:
            peer.forward(self._reactor, assignments)

    async def steal(self, incarnation: int, weight: int) -> tuple[list[int], int]:
        """Ask a peer for unstarted work.

        Returns:
            The assignments that are now this node's, and their weight; none if it did not answer.
        """
        peer = self._peers.get(incarnation)
        if peer is None:
            return [], 0
        try:
            return await peer.ask(self._reactor, weight)
        except Exception as error:
            # A connection that broke is dialled again; what was passed on is found by looking.
            self.log.debug("{peer} gave no work: {error!r}", peer=peer.name, error=error)
            return [], 0

    def peer(self, incarnation: int) -> Peer | None:
        """Return one of them, if it is known."""
        return self._peers.get(incarnation)

    def wake(self) -> None:
        """Tell the peers with room that there may be work."""
        for peer in self._peers.values():
            peer.wake()

    def describe(self) -> list[dict[str, Any]]:
        """Say of each peer whether it is connected, and how loaded it says it is."""
        return [peer.describe() for peer in self._peers.values()]

    async def step(self) -> float | None:
        """Tell the peers the load if it is time, and hang up on those that are silent."""
        linked = [peer for peer in self._peers.values() if peer.pipe is not None]
        if not linked:
            return None
        now, report = self._reactor.seconds(), self._load()
        if report.burden != self._told or now - self._told_at >= LEAST:
            self._told, self._told_at = report.burden, now
            text = report.as_text()
            for peer in linked:
                peer.tell(text)
        for peer in linked:
            if now - peer.heard_at > SILENCE and peer.pipe is not None:
                peer.pipe.drop("is silent")
        return TICK

    # What the connections ask.

    def greeted(
        self, pipe: PeerPipe, name: str, incarnation: int, version: str
    ) -> dict[str, object]:
        """Check a claimed identity: the certificate and the last heartbeat must agree with it."""
        del version
        peer = self._peers.get(incarnation)
        is_certified = pipe.certified is None or pipe.certified == name
        if not is_certified or pipe.is_known:
            raise NotAPeer("the certificate names another node")
        if peer is None or peer.name != name or incarnation < self._incarnation:
            self._ask_to_look_again()
            raise NotAPeer("no such node is known to run")
        pipe.introduce()
        self._link(peer, pipe)
        return self._introduction()

    def reported(self, pipe: PeerPipe, load: str) -> dict[str, object]:
        """A peer says how loaded it is."""
        peer = self._at(pipe)
        if peer is not None:
            peer.heard(NodeReport.read(peer.row, load), self._reactor.seconds())
        return {}

    def handed(self, pipe: PeerPipe, assignments: str) -> dict[str, object]:
        """A peer hands work over."""
        if self._at(pipe) is not None and self.running:
            self._taken(numbers_in(assignments))
        return {}

    def asked(self, pipe: PeerPipe, weight: int) -> Deferred[dict[str, object]]:
        """A peer asks for work."""
        return Deferred.fromCoroutine(self._give(pipe, weight))

    def woken(self, pipe: PeerPipe) -> dict[str, object]:
        """A peer says that there may be work."""
        if self._at(pipe) is not None:
            self._woken()
        return {}

    def sounded(self, pipe: PeerPipe) -> dict[str, object]:
        """A peer asks whether this node lives."""
        peer = self._at(pipe)
        if peer is not None:
            peer.answered_at = time.monotonic()
        return {"lives": peer is not None and bool(self.running)}

    def kept_for(self, pipe: PeerPipe) -> dict[str, object]:
        """A peer has renewed this node's lease, because it answered."""
        peer = self._at(pipe)
        if peer is not None and self.running:
            self._kept(peer.answered_at)
        return {}

    def left(self, pipe: PeerPipe) -> None:
        """A connection is gone."""
        self._server.forget(pipe)
        if pipe.why_dropped is not None and self.running:
            self._warn_of(pipe)
        peer = self._at(pipe)
        if peer is not None:
            peer.unlinked()
            self._dial_again(peer)

    async def _give(self, pipe: PeerPipe, weight: int) -> dict[str, object]:
        peer = self._at(pipe)
        if peer is None or peer.is_asked or weight <= 0:
            return {"assignments": "", "weight": 0}
        peer.is_asked = True
        try:
            assignments, passed = await self._surrender(peer.incarnation, weight)
        except Exception as error:
            self.log.warn("no work for {peer}: {error!r}", peer=peer.name, error=error)
            assignments, passed = [], 0
        finally:
            peer.is_asked = False
        return {"assignments": joined(assignments), "weight": passed}

    def _at(self, pipe: PeerPipe) -> Peer | None:
        return next((peer for peer in self._peers.values() if peer.pipe is pipe), None)

    def _introduction(self) -> dict[str, object]:
        return {
            "name": self._name,
            "incarnation": self._incarnation,
            "version": self._version,
        }

    def _link(self, peer: Peer, pipe: PeerPipe) -> None:
        peer.linked(pipe, self._reactor.seconds())
        self.log.info("connected with peer {peer}", peer=peer.name)
        # The load goes out after the answer to the greeting: before it this node is a stranger.
        self._told = None
        self._reactor.callLater(0, self.alarm.ring)

    def _dial(self, peer: Peer) -> None:
        peer.dialling = Deferred.fromCoroutine(self._meet(peer))
        peer.dialling.addErrback(self._not_met, peer)
        peer.dialling.addCallback(lambda _: self._dialled(peer))

    async def _meet(self, peer: Peer) -> None:
        """Connect to a peer, and check that it is the node that the database names."""
        pipe = await dialled(self._reactor, self._place_of(peer), self)
        try:
            if pipe.certified is not None and pipe.certified != peer.name:
                raise NotAPeer(f"the certificate there is {pipe.certified}'s")
            asking = pipe.say(Hello, **self._introduction())
            answer = await asking.addTimeout(PATIENCE, self._reactor)
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
                "peer {peer} is not reached: {error!r}", peer=peer.name, error=failure.value
            )

    def _dial_again(self, peer: Peer) -> None:
        is_ours = peer.incarnation < self._incarnation and self._peers.get(peer.incarnation) is peer
        if self.running and is_ours and not peer.is_sought:
            peer.retry = self._reactor.callLater(peer.next_pause(), self._dial, peer)

    def _forget(self, incarnations: Any) -> None:
        for number in list(incarnations):
            self._peers.pop(number).close()

    def _ask_to_look_again(self) -> None:
        now = self._reactor.seconds()
        if now - self._looked_at >= LOOK_AGAIN:
            self._looked_at = now
            self._look_again()

    def _warn_of(self, pipe: PeerPipe) -> None:
        now = self._reactor.seconds()
        if now - self._warned_at >= LOOK_AGAIN:
            self._warned_at = now
            peer = self._at(pipe)
            self.log.warn(
                "hung up on {who}: {why}",
                who="a stranger" if peer is None else peer.name,
                why=pipe.why_dropped,
            )

    def _cannot_listen(self, failure: Failure) -> None:
        self.log.critical(
            "cannot listen at {endpoint}: {error}; this node stops",
            endpoint=self._endpoint,
            error=failure.value,
        )
        self._failed()


def _closed(port: Any) -> Any:
    return None if port is None else port.stopListening()
