"""What a node has to do with the others: its pulse, its peers, and the work handed between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.node.handover import Handover
from txqueue.node.lag import LagMeter, memory
from txqueue.node.lease_proxy import LeaseProxy
from txqueue.node.peers import Peers
from txqueue.node.worker_pool import WorkerPool
from txqueue.policy.balancing import NodeReport, ahead_of
from txqueue.policy.dispatch import NodeLoad
from txqueue.store.functions import Beat, StoredFunctions
from txqueue.wire.endpoints import Endpoint

__all__ = ["Cluster"]


class Cluster(MultiService):
    """Puts the services together by which nodes know each other.

    Args:
        reactor: Connects, listens and times.
        engine: The stored functions.
        name: This node's.
        endpoint: Where it listens for peers; None for no peers.
        workers: The worker processes, which hold this node's jobs.
        identity: Returns (node_id, incarnation) of this run, or None while it has no lease.
        accept: Notes that an assignment arrived; says whether for the first time.
        read: Told of assignments of this node to be read from the database.
        give_back: Called with an assignment and those of its jobs, or all, that no peer takes.
        woken: Called when there may be jobs to claim.
        turned: Told whether the node is to take jobs, when an operator changes that.
        look_again: Called when a heartbeat would tell more.
        kept: Told from which moment of the monotonic clock on a peer has renewed the lease.
        failed: Called when it cannot listen.

    Attributes:
        is_draining: Whether the node takes nothing: an operator said so, or it ends.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        engine: StoredFunctions,
        *,
        name: str,
        endpoint: Endpoint | None,
        workers: WorkerPool,
        identity: Callable[[], tuple[int, int] | None],
        reaches: Callable[[], bool],
        accept: Callable[[int], bool],
        read: Callable[[Sequence[int]], None],
        give_back: Callable[[int, list[int] | None], None],
        woken: Callable[[], None],
        turned: Callable[[bool], None],
        look_again: Callable[[], None],
        kept: Callable[[float], None],
        failed: Callable[[], None],
    ) -> None:
        super().__init__()
        self._workers = workers
        self._identity = identity
        self._reaches = reaches
        self._read = read
        self._give_back = give_back
        self._turned = turned
        self._has_backlog = True
        self.is_draining = self._is_ending = False
        self._version = version("txqueue")
        self._lag = LagMeter(reactor, lambda: ahead_of(workers.loads)[0])
        self._handover = Handover(
            reactor,
            engine,
            incarnation=lambda: self._numbers[1],
            workers=workers,
            peers=lambda: self._peers,
            load=self.load,
            is_idle=lambda: not self._has_backlog,
            accept=accept,
            give_back=give_back,
        )
        self._peers: Peers | None = None
        if endpoint is not None:
            self._peers = Peers(
                reactor,
                name=name,
                endpoint=endpoint,
                load=self.load,
                taken=self._taken,
                surrender=self._handover.surrender,
                woken=woken,
                look_again=look_again,
                kept=kept,
                failed=failed,
            )
            self._peers.setServiceParent(self)
        self._lease_proxy = LeaseProxy(
            reactor, engine, lambda: self._numbers[1], peers=lambda: self._peers
        )
        self._lease_proxy.setServiceParent(self)
        self._lag.setServiceParent(self)
        self._handover.setServiceParent(self)

    @property
    def _numbers(self) -> tuple[int, int]:
        return self._identity() or (0, 0)

    def load(self) -> NodeReport:
        """Return what this node says of itself."""
        loads = self._workers.loads
        node_id, incarnation = self._numbers
        # One that cannot reach the database could read nothing that it is handed.
        has_room = incarnation and self._reaches()
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
            memory=memory(),
            is_draining=self.is_draining,
            version=self._version,
        )

    def report(self) -> dict[str, Any]:
        """Return what a heartbeat tells of the node besides its load."""
        return {"lag": self._lag.lag, "memory": memory()}

    def describe(self) -> dict[str, Any]:
        """Return the node's measurements and its peers; plain data."""
        peers = [] if self._peers is None else self._peers.describe()
        return {**self.report(), "peers": peers}

    def heard(self, incarnation: int, beat: Beat) -> None:
        """Take from a heartbeat which peers there are, and whether to claim jobs."""
        if self._peers is not None:
            self._peers.heard(incarnation, beat.peers)
            self._lease_proxy.heard(beat.peers)
        was_draining = self.is_draining
        self.is_draining = self._is_ending or beat.state == "draining"
        if self.is_draining != was_draining:
            self._turned(not self.is_draining)
        if self.is_draining and self.running:
            Deferred.fromCoroutine(self._handover.pass_all()).addErrback(self._not_passed)

    def looked(self, has_backlog: bool) -> None:
        """Note whether a claim left ready jobs behind."""
        self._has_backlog = has_backlog

    def room_made(self) -> None:
        """Note that the workers have room."""
        self._handover.room_made()

    def loads(self) -> list[NodeLoad]:
        """Return what the peers hold that may be handed jobs, as far as it is fresh."""
        return [] if self._peers is None else self._peers.loads()

    def has_idle_peer(self, queues: set[str], work_types: set[str]) -> bool:
        """Tell whether a peer that serves all of these runs next to nothing."""
        return self._peers is not None and self._peers.has_idle(queues, work_types)

    def forward(self, incarnation: int, assignments: Sequence[int]) -> None:
        """Tell a peer that jobs are assigned to it; if the message is lost, it finds them."""
        if self._peers is not None:
            self._peers.forward(incarnation, assignments)

    def wake(self) -> None:
        """Tell the peers with room that there may be work."""
        if self._peers is not None:
            self._peers.wake()

    @property
    def has_peers(self) -> bool:
        """Whether a peer may have jobs on their way to this node."""
        return bool(self.loads())

    async def drain(self) -> None:
        """Take nothing more, and pass on what is not started."""
        self.is_draining = self._is_ending = True
        stopping = self._handover.stopService()
        if stopping is not None:
            await stopping
        try:
            await self._handover.pass_all()
        except Exception as error:
            self.log.warn("nothing is passed on: {error!r}", error=error)

    def _taken(self, assignments: Sequence[int]) -> None:
        if not self.is_draining:
            self._read(assignments)
            return
        for assignment in assignments:
            self._give_back(assignment, None)

    def _not_passed(self, failure: Failure) -> None:
        self.log.warn("not all is passed on: {error!r}", error=failure.value)
