"""The node's lease: registered in `node_info`, renewed by heartbeats or by a peer, acted on when it
changes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from attrs import define
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from txqueue.errors import TxqueueError
from txqueue.model.humanize import counted
from txqueue.node.state.arrivals import Meters
from txqueue.node.state.lease import Identity, Lease, Lifecycle
from txqueue.node.state.periodic import BeatListener, Periodic, Wakeups
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.run_functions import HeartbeatReply
from txqueue.system.clock import Clock, Timer
from txqueue.system.processes import has_ended

if TYPE_CHECKING:
    from txqueue.node.arrival.assigned import Credits
    from txqueue.node.description import Description
    from txqueue.node.peers.peer import Peer, PeerTable
    from txqueue.node.workers.pool import WorkerPool
    from txqueue.node.workers.workload import Workers


@define(eq=False, repr=False, slots=False)
class LeaseKeeper:
    """Writes the lease, passes it to the workers, and acts when it expires.

    Args:
        clock: Times the expiry.
        lease: The node's lease.
        workers: Start jobs while the lease holds.
        credits: Grants credit while the lease holds.
        wakeups: Wakes the services that claim once the lease is acquired.
    """

    log = Logger()

    _clock: Clock
    _lease: Lease
    _workers: Workers
    _credits: Credits
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self._expiry: Timer | None = None
        self._is_stopped = self._is_kept = False

    def register(self, identity: Identity, began: float) -> None:
        """Begin a new run; its lease counts from `began`, when the registration was sent."""
        self._lease.register(identity)
        self._hold(began)
        self._wakeups.look_for_work()

    def renew(self, began: float) -> None:
        """Let the lease count from `began`, when the last heartbeat was sent."""
        self._is_kept = False
        had_lease = self._lease.identity is not None
        self._hold(began)
        if not had_lease:
            self._wakeups.look_for_work()

    def renew_by_peer(self, answered_at: float) -> None:
        """Act on the renewal of this node's lease in the database by a peer.

        Args:
            answered_at: When this node last answered that peer's liveness check, by the monotonic
                clock; the lease counts from then.
        """
        is_news = answered_at + self._lease.seconds > self._lease.until
        if self._lease.is_registered and is_news:
            if not self._is_kept:
                self.log.warn("a peer renews this node's lease while the database is gone")
            self.renew(answered_at)
            self._is_kept = True

    def give_up(self) -> None:
        """Withdraw credit and return all unstarted jobs, as other nodes may have taken them."""
        self._credits.review()
        self._workers.give_back()

    def stop(self) -> None:
        """Stop watching for the expiry of the lease."""
        self._is_stopped = True
        self._stop_watching()

    def _hold(self, began: float) -> None:
        self._lease.renew(began)
        self._workers.renew(self._lease.until, self._lease.incarnation)
        self._stop_watching()
        if not self._is_stopped:
            left = max(0.0, self._lease.until - time.monotonic())
            self._expiry = self._clock.callLater(left, self._on_expiry)

    def _on_expiry(self) -> None:
        """Act on the expiry of the lease: other nodes may presume this node dead."""
        self.log.warn("the lease could not be renewed in time: no job starts until it is")
        self.give_up()

    def _stop_watching(self) -> None:
        if self._expiry is not None and self._expiry.active():
            self._expiry.cancel()


LEAST_PAUSE = 0.05


@define(eq=False, repr=False, slots=False)
class Heartbeats(Periodic):
    """Registers the node and renews its lease.

    Args:
        clock: Times the heartbeats.
        functions: The stored functions.
        node: The columns of the node's row: name, hostname, pid, address, port, lease,
            capacity, queues, version.
        work_types: The node's work types, with their policies.
        host: Identifies the host among hosts; `NO_HOST` to hide it.
        lease: The node's lease.
        workers: Have the jobs that the node holds.
        keeper: Notified when the lease is acquired, renewed or lost.
        lifecycle: Notified when operators drain the node, or another run has taken its name.
        load_meter: Measures the node.
        meters: Counts the rescued jobs.
        listeners: Notified of the answer to each heartbeat.
        processes: The workers, killed when another run has taken the node's name.
        wakeups: Has the alarm of heartbeats; wakes the services that take jobs when draining ends.
    """

    name = "heartbeats"

    _functions: StoredFunctions
    _node: Mapping[str, Any]
    _work_types: Sequence[Mapping[str, Any]]
    _host: str
    _lease: Lease
    _workers: Workers
    _keeper: LeaseKeeper
    _lifecycle: Lifecycle
    _load_meter: Description
    _meters: Meters
    _listeners: Sequence[BeatListener]
    _processes: WorkerPool
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self.alarm = self._wakeups.heartbeats
        self._next_end: float | None = None
        # When this process registered first, by the database's clock.
        self._since: datetime | None = None
        # How many heartbeats of this run the database had counted at its last answer, and which
        # server that was.
        self._beats = 0
        self._server: str | None = None

    async def step(self) -> float | None:
        """Send a heartbeat, or register the node if it is not registered."""
        if not self._lease.is_registered:
            await self._register()
            # The first heartbeat names the peers.
            return 0.0
        await self._renew()
        interval = self._wakeups.beat
        # If another node's lease expires before the next heartbeat, send one at that time, to
        # rescue that node's jobs.
        return (
            interval if self._next_end is None else min(interval, max(self._next_end, LEAST_PAUSE))
        )

    def stopService(self) -> Deferred[None] | None:
        """Stop renewing the lease."""
        self._keeper.stop()
        return super().stopService()

    async def leave(self, state: str) -> None:
        """Record that the node drains or stops, if the database answers."""
        if not self._lease.is_registered:
            return
        try:
            await self._functions.leave(self._lease.incarnation, state)
        except TxqueueError as error:
            self.log.warn(
                "could not record that this node is {state}: {error}", state=state, error=error
            )

    async def _register(self) -> None:
        """Register under the node's name, which fences an earlier run."""
        if self._since is None:
            await self._advance_sequences()
        began = time.monotonic()
        node_id, incarnation, now = await self._functions.register_node(
            self._node, self._work_types, self._since
        )
        identity = Identity(node_id, incarnation)
        self._since = self._since or now
        self._beats, self._server = 0, None
        self._lease.note_answer()
        self.log.info(
            "registered as node {name}, incarnation {number}",
            name=self._node["name"],
            number=identity.incarnation,
        )
        self._keeper.register(identity, began)

    async def _advance_sequences(self) -> None:
        """Set the sequences that are behind their tables, or numbers would be given twice."""
        if behind := await self._functions.advance_sequences():
            self.log.warn(
                "set sequences that were behind their tables, as after logical replication:"
                " {names}; jobs enqueued before may have numbers that others have",
                names=", ".join(behind),
            )

    async def _renew(self) -> None:
        began = time.monotonic()
        is_ending = self._lifecycle.is_ending or None
        report = {**self._load_meter.measured(), "host": self._host or None, "is_ending": is_ending}
        reply = await self._functions.heartbeat(
            self._lease.incarnation, self._load_meter.load, report
        )
        self._next_end = reply.next_end
        self._meters.rescues["expired"] += reply.rescued
        self._lease.note_answer()
        if not reply.owned:
            await self._replaced()
        elif await self._has_lost(reply):
            await self._begin_anew(
                "the database was restored, or a standby has taken over, and lacks what this node"
                " has written"
            )
        else:
            self._keeper.renew(began)
            self._tell(reply)
            if is_ending and reply.state == "alive":
                # Undrained before the database knew that this node stops: it accepts no more jobs.
                await self._functions.leave(self._lease.incarnation, "draining")
            await self._declare_dead(reply)

    async def _has_lost(self, reply: HeartbeatReply) -> bool:
        """Return whether the database has lost writes of this run since the last answer.

        A database that has counted fewer heartbeats than this node has lost some. A standby that
        was promoted may have lost less than a heartbeat: then it lacks assignments that the node
        holds. A standby that has lost nothing goes on with the node's jobs.
        """
        if reply.beats <= self._beats:
            return True
        is_elsewhere = self._server not in (None, reply.server)
        if is_elsewhere and await self._lacks_jobs():
            return True
        self._beats, self._server = reply.beats, reply.server
        return False

    async def _lacks_jobs(self) -> bool:
        """Return whether the database lacks an assignment of which the node still holds jobs."""
        held = self._workers.assignments
        jobs = await self._functions.jobs_of(self._lease.incarnation, held)
        lacking = {*held} - {job.assignment for job in jobs}
        return not lacking.isdisjoint(self._workers.assignments)

    def _tell(self, reply: HeartbeatReply) -> None:
        has_turned = self._lifecycle.order(drain=reply.state == "draining")
        for listener in self._listeners:
            listener.on_heartbeat(reply)
        if has_turned and not self._lifecycle.is_draining:
            self._wakeups.look_for_work()

    async def _replaced(self) -> None:
        """Register again, unless another run has taken the node's name."""
        if await self._functions.replaced_by(self._node["name"]) == self._lease.incarnation:
            self._keeper.give_up()
            self._give_way()
        else:
            await self._begin_anew("the lease expired and others have taken the jobs")

    async def _begin_anew(self, cause: str) -> None:
        """Register as another run, which drops what this one holds."""
        self.log.error("{cause}: registering anew", cause=cause)
        self._keeper.give_up()
        # If the answer is lost, the node registers once more in place of that run.
        self._lease.forget()
        await self._register()

    def _give_way(self) -> None:
        self.log.critical(
            "another node runs under the name {name}: this one stops; give each its own --name",
            name=self._node["name"],
        )
        if not self._lifecycle.is_ending:
            self._processes.stop_at_once()
            self._lifecycle.fail()

    async def _declare_dead(self, reply: HeartbeatReply) -> None:
        """Rescue the jobs of nodes of this host whose processes have ended, before their leases
        expire.
        """
        ended = [incarnation for incarnation, pid in reply.neighbours if has_ended(pid)]
        if ended:
            rescued = await self._functions.declare_dead(self._lease.incarnation, ended)
            self._meters.rescues["ended"] += rescued
            self.log.warn(
                "{nodes} of this host ended without unregistering; {jobs} run again",
                nodes=counted(len(ended), "node"),
                jobs=counted(rescued, "job"),
            )


# A node that has been silent for this fraction of its lease has missed a heartbeat.
SUSPECT = 0.4


@define(eq=False, repr=False, slots=False)
class LeaseProxy(Periodic):
    """Asks silent peers whether they are alive, and renews the leases of those that answer.

    Args:
        clock: Times the retries and the answers.
        functions: The stored functions.
        lease: This node's lease; without it, this node renews no lease of a peer.
        peers: The other masters.
    """

    name = "lease proxy"

    _functions: StoredFunctions
    _lease: Lease
    _peers: PeerTable

    def __attrs_post_init__(self) -> None:
        self._suspects: list[int] = []

    def on_heartbeat(self, reply: HeartbeatReply) -> None:
        """Note the nodes that have been silent for a large fraction of their leases."""
        self._suspects = [row["incarnation"] for row in reply.peers if row["silence"] > SUSPECT]
        if self._suspects:
            self.alarm.ring()

    async def step(self) -> float | None:
        """Ask the silent peers whether they are alive, and renew the leases of those that are."""
        suspects, self._suspects = self._suspects, []
        identity = self._lease.identity
        if not suspects or identity is None:
            return None
        known = [peer for peer in map(self._peers.peer, suspects) if peer is not None]
        asking = [Deferred.fromCoroutine(self._lives(peer)) for peer in known]
        answers = await gatherResults(asking)
        living = {
            peer.incarnation: peer for peer, lives in zip(known, answers, strict=True) if lives
        }
        if living:
            for incarnation in await self._functions.renew_for_peer(
                identity.incarnation, list(living)
            ):
                living[incarnation].tell_kept()
        return None

    async def _lives(self, peer: Peer) -> bool:
        """Ask a peer whether it is alive; presume that it is not if it does not answer promptly."""
        try:
            return await peer.lives(self._clock)
        except Exception as error:
            self.log.debug("{peer} does not answer: {error!r}", peer=peer.name, error=error)
            return False
